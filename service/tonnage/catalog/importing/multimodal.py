"""Language models with encoders in front: the text stack, and one part for each encoder."""

from collections.abc import Callable
from functools import partial
from typing import Any

from tonnage.engine.model import ModelArchitecture

from .decoders import decoder
from .families import DECODERS
from .fields import Fields
from .gemma import gemma3n_text, gemma4_text
from .latent import LATENT, latent_decoder
from .linear import bailing_hybrid, kimi_linear, minimax, qwen_next
from .llama_multimodal import llama4_text, mllama_text
from .sound import audio_extra
from .stacks import with_extras
from .variants import VARIANTS
from .vision import vision_extra

TextBuilder = Callable[[Fields], ModelArchitecture]

TEXT_BUILDERS: dict[str, TextBuilder] = {
    **{kind: partial(decoder, habits=habits) for kind, habits in DECODERS.items()},
    **{kind: partial(latent_decoder, kind=kind) for kind in LATENT},
    "qwen3_next": qwen_next,
    "qwen3_5_text": qwen_next,
    "qwen3_5_moe_text": qwen_next,
    "kimi_linear": kimi_linear,
    "bailing_hybrid": bailing_hybrid,
    "minimax": minimax,
    "minimax_text_01": minimax,
    "llama4_text": llama4_text,
    "gemma3n_text": gemma3n_text,
    "gemma4_text": gemma4_text,
    "gemma4_unified_text": gemma4_text,
    **VARIANTS,
}

LLAVA_TEXT = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}
"""LlamaConfig's defaults, on which the text part of LLaVA's published files relies."""


def text_fields(fields: Fields, defaults: dict[str, Any] | None = None) -> Fields:
    """``text_config``, with what the outer object says about the embeddings."""
    text = fields.child("text_config")
    outer = {
        name: fields.raw(name)
        for name in ("tie_word_embeddings", "vocab_size")
        if fields.raw(name) is not None
    }
    text.defaults({**(defaults or {}), **outer})
    return text


def in_front_of(kind: str, defaults: dict[str, Any] | None = None) -> TextBuilder:
    """A text stack of the kind that ``text_config`` names, or else of ``kind``."""

    def build(fields: Fields) -> ModelArchitecture:
        text = text_fields(fields, defaults)
        named = text.maybe_text("model_type") or kind
        if text.raw("kv_lora_rank") is not None and named == "mistral":
            named = "deepseek_v3"
        builder = TEXT_BUILDERS.get(named)
        if builder is None:
            text.refuse("model_type", f"{named!r} is not known here")
        architecture = builder(text)
        width = architecture.hidden_size
        return with_extras(architecture, vision_extra(fields, width), audio_extra(fields, width))

    return build


def mllama(fields: Fields) -> ModelArchitecture:
    """The cross attention keeps the positions of one image of the most tiles."""
    text = text_fields(fields)
    vision = fields.child("vision_config")
    side = vision.count("image_size") // vision.count("patch_size")
    tiles = vision.maybe_count("max_num_tiles") or 4
    architecture = mllama_text(text, tiles * (side * side + 1))
    return with_extras(architecture, vision_extra(fields, architecture.hidden_size))


def flat_text(kind: str) -> TextBuilder:
    """The text fields beside ``vision_config`` (Qwen2-VL and 2.5-VL), or within ``text_config``."""

    def build(fields: Fields) -> ModelArchitecture:
        if fields.raw("text_config") is not None:
            return in_front_of(kind)(fields)
        architecture = decoder(fields, DECODERS[kind])
        return with_extras(architecture, vision_extra(fields, architecture.hidden_size))

    return build


MULTIMODAL: dict[str, TextBuilder] = {
    "gemma3": in_front_of("gemma3_text"),
    "mistral3": in_front_of("mistral"),
    "llava": in_front_of("llama", {**LLAVA_TEXT, "max_position_embeddings": 2048}),
    "qwen2_vl": flat_text("qwen2_vl_text"),
    "qwen2_5_vl": flat_text("qwen2_5_vl_text"),
    "llama4": in_front_of("llama4_text"),
    "mllama": mllama,
    "gemma3n": in_front_of("gemma3n_text"),
    "gemma4": in_front_of("gemma4_text"),
    "gemma4_unified": in_front_of("gemma4_unified_text"),
    "muse_glimmer": in_front_of("muse_glimmer_text"),
    "qwen2_audio": in_front_of("qwen2"),
    "qwen3_5": in_front_of("qwen3_5_text"),
    "qwen3_5_moe": in_front_of("qwen3_5_moe_text"),
    "kimi_k25": in_front_of("kimi_k2"),
    "kimi_k3": in_front_of("kimi_linear"),
    "qwen3_vl": in_front_of("qwen3_vl_text"),
    "qwen3_vl_moe": in_front_of("qwen3_vl_moe_text"),
}
