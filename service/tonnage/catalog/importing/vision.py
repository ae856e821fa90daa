"""Encoders of images and sound, as one part outside the layer stack.

Shapes from the vision modules of transformers 5.24; each formula counts its connector (merger or
projector) to the language model too.
"""

from collections.abc import Callable

from tonnage.engine.modules import EncoderProfile, Extra

from .fields import Fields
from .vision_large import gemma3n, gemma4, gemma4_unified, llama4, mllama, muse_glimmer
from .vision_shapes import merger, patch_embedding, square_patches, vision_block

Tower = Callable[[Fields, int], int]
"""From the vision fields and the text width to a parameter count."""

CONNECTOR = (
    "multimodal_projector_bias",
    "out_hidden_size",
    "projector_hidden_size",
    "spatial_merge_size",
)
"""What an outer configuration says of the connector, read as if the vision fields said it."""


def siglip(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=True, gated=False, norm_bias=True
    )
    tower = (
        deep * block
        + patch_embedding(vision, width)
        + width
        + square_patches(vision) * width
        + 2 * width
    )
    return tower + width * text + width


def clip(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=True, gated=False, norm_bias=True
    )
    positions = (square_patches(vision) + 2) * width
    return (
        deep * block
        + patch_embedding(vision, width)
        + positions
        + 4 * width
        + (width * text + text + text * text + text)
    )


def pixtral(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=False, gated=True, norm_bias=False
    )
    merge = (vision.maybe_count("spatial_merge_size") or 2) ** 2
    bias = 2 * text * vision.flag("multimodal_projector_bias")
    connector = width + merge * width * width + width * text + text * text + bias
    return deep * block + patch_embedding(vision, width) + width + connector


def qwen2_vl(vision: Fields, text: int) -> int:
    width, deep = vision.count("embed_dim"), vision.count("depth")
    wide = 4 if vision.raw("mlp_ratio") is None else vision.count("mlp_ratio")
    block = vision_block(width, wide * width, bias=True, gated=False, norm_bias=True)
    frames = vision.maybe_count("temporal_patch_size") or 2
    merged = (vision.maybe_count("spatial_merge_size") or 2) ** 2 * width
    return (
        deep * block + frames * patch_embedding(vision, width) + (merger(merged, text, 2 * width))
    )


def qwen2_5_vl(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("depth")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=True, gated=True, norm_bias=False
    )
    frames = vision.maybe_count("temporal_patch_size") or 2
    merged = (vision.maybe_count("spatial_merge_size") or 2) ** 2 * width
    return deep * block + frames * patch_embedding(vision, width) + merger(merged, text, width)


def qwen3_vl(vision: Fields, text: int) -> int:
    """Also Qwen 3.5's, whose ``deepstack_visual_indexes`` is empty."""
    width, deep = vision.count("hidden_size"), vision.count("depth")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=True, gated=False, norm_bias=True
    )
    frames = vision.maybe_count("temporal_patch_size") or 2
    merged = (vision.maybe_count("spatial_merge_size") or 2) ** 2 * width
    out = vision.maybe_count("out_hidden_size") or text
    deepstack = len(vision.maybe_list("deepstack_visual_indexes") or ())
    return (
        deep * block
        + frames * patch_embedding(vision, width)
        + width
        + (vision.maybe_count("num_position_embeddings") or 2304) * width
        + merger(merged, out, 2 * width)
        + deepstack * merger(merged, out, 2 * merged)
    )


def moonvit(vision: Fields, text: int) -> int:
    """Kimi's, with its own field names."""
    width, deep = vision.count("vt_hidden_size"), vision.count("vt_num_hidden_layers")
    wide = vision.count("vt_intermediate_size")
    attending = vision.maybe_count("qkv_hidden_size") or width
    norm_bias = vision.maybe_text("norm_type") != "rmsnorm"
    block = 4 * width * attending + 2 * width * wide + 2 * width * (1 + norm_bias)
    block += (3 * attending + width) * vision.flag("attn_bias", True)
    block += (wide + width) * vision.flag("linear_bias", True)
    positions = vision.count("init_pos_emb_height") * vision.count("init_pos_emb_width")
    merged = 4 * width
    connector = 2 * width + merged * merged + merged + merged * text + text
    return deep * block + patch_embedding(vision, width) + (positions + 3) * width + connector


TOWERS: dict[str, Tower] = {
    "siglip_vision_model": siglip,
    "clip_vision_model": clip,
    "pixtral": pixtral,
    "kimi_k25": moonvit,
    "kimi_k3": moonvit,
    "llama4_vision_model": llama4,
    "mllama_vision_model": mllama,
    "mllama": mllama,
    "gemma3n_vision": gemma3n,
    "gemma4_vision": gemma4,
    "gemma4_unified_vision": gemma4_unified,
    "muse_glimmer_vision": muse_glimmer,
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
}


LARGEST_ITEM: dict[str, tuple[int, int]] = {
    "siglip_vision_model": (4096, 256),
    "pixtral": (12100, 3025),
    "kimi_k25": (16384, 4096),
    "mllama_vision_model": (6404, 6404),
    "mllama": (6404, 6404),
    "gemma4_vision": (2520, 280),
    "qwen2_vl": (65536, 16384),
    "qwen2_5_vl": (65536, 16384),
    "qwen3_vl": (65536, 16384),
    "qwen3_vl_moe": (65536, 16384),
    "qwen3_5": (65536, 16384),
    "qwen3_5_moe": (65536, 16384),
}
"""Patches of the largest image that the family's processor passes on, and tokens made of them (the
processors' defaults in transformers 5.24)."""


def _profile(kind: str, vision: Fields) -> EncoderProfile | None:
    largest = LARGEST_ITEM.get(kind)
    width = vision.maybe_count("hidden_size", "embed_dim", "vt_hidden_size")
    if largest is None or width is None:
        return None
    return EncoderProfile(width=width, positions_per_item=largest[0], tokens_per_item=largest[1])


def vision_extra(whole: Fields, text_width: int) -> Extra | None:
    """The part for ``vision_config``; a kind of tower that is not known is refused."""
    vision = whole.maybe_child("vision_config")
    if vision is None:
        return None
    vision.defaults({name: whole.raw(name) for name in CONNECTOR})
    kind = vision.maybe_text("model_type") or whole.maybe_text("model_type") or ""
    kind = kind if kind in TOWERS else kind.removesuffix("_vision")
    tower = TOWERS.get(kind)
    if tower is None:
        vision.refuse("model_type", f"is {kind!r}, a vision tower that is not known")
    return Extra(
        name="vision encoder",
        role="encoder",
        parameters=tower(vision, text_width),
        shard="tensor",
        profile=_profile(kind, vision),
    )
