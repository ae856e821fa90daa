"""Which layer is which: the many ways in which configurations write a layer pattern."""

from collections.abc import Collection
from typing import Literal

from .fields import Fields
from .stacks import LONGEST_STACK

Windows = Literal["none", "all", "every", "after"]


def layer_count(fields: Fields, *names: str) -> int:
    name = names[0] if names else "num_hidden_layers"
    found = fields.count(*(names or (name,)))
    if found > LONGEST_STACK:
        fields.refuse(name, f"is more than {LONGEST_STACK}")
    return found


def stated_kinds(fields: Fields, layers: int, known: Collection[str]) -> list[str] | None:
    """``layer_types``, each of them one that the builder knows."""
    return stated_choice(fields, "layer_types", layers, known)


def stated_choice(
    fields: Fields, name: str, layers: int, known: Collection[str]
) -> list[str] | None:
    found = fields.maybe_list(name)
    if found is None:
        return None
    for position, kind in enumerate(found):
        if not isinstance(kind, str) or kind not in known:
            fields.refuse_entry(name, position, f"is {kind!r}, which is not known")
    if len(found) != layers:
        fields.refuse(name, f"has {len(found)} entries for {layers} layers")
    return found


def window_layers(fields: Fields, layers: int, windows: Windows, every: int) -> list[int | None]:
    """The window of each layer, None where it sees everything.

    ``every``: each n-th layer sees everything (Gemma 2 and 3, Cohere 2, OLMo 3, gpt-oss).
    ``after``: layers from ``max_window_layers`` on, if ``use_sliding_window`` (Qwen 2, 2.5, 3).
    """
    window = fields.maybe_count("sliding_window") if windows != "none" else None
    if windows == "after" and not fields.flag("use_sliding_window"):
        window = None
    kinds = stated_kinds(
        fields, layers, ("full_attention", "sliding_attention", "attention", "global_attention")
    )
    pattern = _interval(fields, every) if windows == "every" else every
    first_window = (fields.maybe_count("max_window_layers") or 0) if windows == "after" else 0
    if kinds is not None:
        if window is None and "sliding_attention" in kinds and windows != "after":
            fields.refuse("sliding_window", "is missing, and `layer_types` has sliding layers")
        return [window if kind == "sliding_attention" else None for kind in kinds]
    if window is None or windows == "none":
        return [None] * layers
    if windows == "every":
        return [None if (i + 1) % pattern == 0 else window for i in range(layers)]
    return [window if i >= first_window else None for i in range(layers)]


def _interval(fields: Fields, every: int) -> int:
    """``sliding_window_pattern``: a number, or letters such as LLLG (EXAONE 4)."""
    value = fields.raw("sliding_window_pattern")
    if isinstance(value, str):
        if value != "L" * (len(value) - 1) + "G":
            fields.refuse("sliding_window_pattern", f"is {value!r}, which is not known")
        return len(value)
    return fields.maybe_count("sliding_window_pattern") or every


def expert_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers route to experts, by whichever of the known fields the configuration has."""
    kinds = stated_choice(fields, "mlp_layer_types", layers, ("dense", "sparse"))
    if kinds is not None:
        fields.ignore("first_k_dense_replace", "moe_layer_freq")
        return [kind == "sparse" for kind in kinds]
    listed = _listed_layers(fields, layers)
    if listed is not None:
        return listed
    first = fields.maybe_count("first_k_dense_replace", "moe_layer_start_index") or 0
    ends = fields.raw("moe_layer_end_index") not in (None, -1)
    last = fields.maybe_count("moe_layer_end_index") if ends else None
    step = _step(fields)
    dense = set(fields.maybe_counts("mlp_only_layers") or ())
    phase = 1 if fields.states("decoder_sparse_step") or fields.states("moe_layer_interval") else 0
    return [
        first <= i <= (layers if last is None else last)
        and (i + phase) % step == 0
        and i not in dense
        for i in range(layers)
    ]


def _step(fields: Fields) -> int:
    return fields.maybe_count("decoder_sparse_step", "moe_layer_interval", "moe_layer_freq") or 1


def _listed_layers(fields: Fields, layers: int) -> list[bool] | None:
    """``moe_layer_freq`` as a list of 0 and 1, or ``moe_layers_enum`` as "3,4,5"."""
    if isinstance(fields.raw("moe_layer_freq"), list):
        return [bool(one) for one in fields.maybe_counts("moe_layer_freq", layers) or ()]
    enumerated = fields.maybe_text("moe_layers_enum")
    if enumerated is None:
        return None
    if not all(part.strip().isdecimal() for part in enumerated.split(",")):
        fields.refuse("moe_layers_enum", "is not a list of layer numbers")
    sparse = {int(part) for part in enumerated.split(",")}
    return [i in sparse for i in range(layers)]
