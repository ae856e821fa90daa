"""Which number format a checkpoint is stored in, from its ``quantization_config``."""

from typing import Any

from .fields import Fields

PLAIN = {
    None: "bf16",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
}


def checkpoint_format_from_config(config: dict[str, Any]) -> str:
    """The id of a format record; a method that is not known is refused by name."""
    fields = Fields(config)
    inner = fields.maybe_child("text_config")
    scheme = fields.maybe_child("quantization_config")
    if scheme is None and inner is not None:
        scheme = inner.maybe_child("quantization_config")
    return (
        _plain(fields, inner)
        if scheme is None
        else _quantized(scheme, fields.maybe_text("expert_dtype"))
    )


def _quantized(scheme: Fields, experts: str | None) -> str:
    method = scheme.maybe_text("quant_method")
    if method is None and scheme.states("quant_algo"):
        method = "modelopt"
    if method is None:
        scheme.refuse("quant_method", "is missing")
    if method == "fp8":
        return _fp8(scheme, experts)
    if method == "gptq" and scheme.maybe_count("bits") == 8:
        return "gptq-int8"
    if method in ("awq", "gptq") and scheme.maybe_count("bits", "w_bit") not in (None, 4):
        scheme.refuse("bits", f"of {method} are not 4, which is the only known width")
    if method in ("awq", "gptq", "mxfp4"):
        return method
    if method == "bitsandbytes":
        return "bnb-nf4" if scheme.flag("load_in_4bit") else "bnb-int8"
    if method == "modelopt":
        return _modelopt(scheme)
    if method == "compressed-tensors":
        return _compressed(scheme)
    raise scheme.refusal("quant_method", f"{method!r} is not known")


def _plain(fields: Fields, inner: Fields | None) -> str:
    named = fields.maybe_text("dtype") or fields.maybe_text("torch_dtype")
    pointed = fields
    if named is None and inner is not None:
        named = inner.maybe_text("dtype") or inner.maybe_text("torch_dtype")
        pointed = inner
    if named not in PLAIN:
        pointed.refuse("dtype" if pointed.states("dtype") else "torch_dtype", f"is {named!r}")
    return PLAIN[named]


def _fp8(scheme: Fields, experts: str | None) -> str:
    if experts is not None:
        scheme.refuse("quant_method", f"fp8 with experts in {experts!r} mixes formats")
    mixed = scheme.maybe_text("quant_algo")
    if mixed not in (None, "FP8"):
        scheme.refuse("quant_algo", f"{mixed!r} mixes formats, and is not known")
    return "fp8-block" if scheme.raw("weight_block_size") else "fp8"


def _modelopt(scheme: Fields) -> str:
    algorithm = scheme.maybe_text("quant_algo")
    known = {"FP8": "fp8", "NVFP4": "nvfp4", "MXFP4": "mxfp4", "W4A16_AWQ": "awq"}
    if algorithm not in known:
        scheme.refuse("quant_algo", f"{algorithm!r} is not known")
    return known[algorithm]


def _compressed(scheme: Fields) -> str:
    groups = scheme.child("config_groups")
    formats = {_group(groups.child(name)) for name in sorted(map(str, scheme.raw("config_groups")))}
    if len(formats) != 1:
        scheme.refuse("config_groups", "has groups of different formats, or none")
    return formats.pop()


def _group(group: Fields) -> str:
    weights = group.child("weights")
    bits, kind = weights.count("num_bits"), weights.maybe_text("type")
    block = weights.maybe_text("strategy") == "block"
    if (bits, kind) == (8, "float"):
        return "fp8-block" if block else "fp8"
    if (bits, kind) == (8, "int"):
        return "int8-w8a8"
    if (bits, kind) == (4, "int"):
        return "w4a16"
    if (bits, kind) == (4, "float"):
        return "mxfp4" if weights.maybe_count("group_size") == 32 else "nvfp4"
    raise weights.refusal("num_bits", f"{bits} of type {kind!r} is not known")
