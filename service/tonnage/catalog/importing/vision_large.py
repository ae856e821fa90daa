"""Vision towers of Llama, Gemma and Muse: transformers 5.24 modules of the same names."""

from .fields import Fields
from .vision_shapes import patch_embedding, square_patches, vision_block


def llama4(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    wide = vision.count("intermediate_size")
    block = vision_block(width, wide, bias=True, gated=False, norm_bias=True)
    positions = (square_patches(vision) + 2) * width
    shuffled = vision.count("projector_input_dim")
    out = vision.count("projector_output_dim")
    connector = wide * shuffled + out * out + vision.count("vision_output_dim") * text
    return deep * block + patch_embedding(vision, width) + positions + 4 * width + connector


def mllama(vision: Fields, text: int) -> int:
    """A local and a global encoder, and positions for each arrangement of tiles."""
    width = vision.count("hidden_size")
    local, whole_image = vision.count("num_hidden_layers"), vision.count("num_global_layers")
    wide = vision.count("intermediate_size")
    block = 4 * width * width + 2 * width * wide + wide + 5 * width
    positions = square_patches(vision) + 1
    arrangements = len(vision.maybe_list("supported_aspect_ratios") or [0] * 8) + 1
    tiles = vision.maybe_count("max_num_tiles") or 4
    tables = positions * width * (1 + arrangements * tiles) + 2 * arrangements * tiles * width
    out = vision.count("vision_output_dim")
    return (
        (local + whole_image) * block
        + patch_embedding(vision, width)
        + tables
        + 5 * width
        + out * text
        + text
    )


def gemma4(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    heads, head_dim = vision.count("num_attention_heads"), vision.count("head_dim")
    wide = vision.count("intermediate_size")
    block = 4 * width * heads * head_dim + 3 * width * wide + 4 * width + 2 * head_dim
    vision.ignore("global_head_dim")
    positions = 2 * vision.count("position_embedding_size") * width
    return deep * block + patch_embedding(vision, width) + positions + width * text


def gemma4_unified(vision: Fields, text: int) -> int:
    """No tower: patches are projected into the language model."""
    patch = vision.count("patch_size") * vision.count("pooling_kernel_size")
    width = vision.count("mm_embed_dim")
    pixels = 3 * patch * patch
    return (
        2 * pixels
        + pixels * width
        + 5 * width
        + 2 * vision.count("mm_posemb_size") * width
        + width * text
    )


MOBILENET_V5_300M = 299_900_000
"""timm's mobilenetv5_300m_enc, which Gemma 3n names without its shapes; within 2 %."""


def gemma3n(vision: Fields, text: int) -> int:
    named = vision.maybe_text("architecture") or "mobilenetv5_300m_enc"
    if named != "mobilenetv5_300m_enc":
        vision.refuse("architecture", f"{named!r} is not known")
    width = vision.maybe_count("hidden_size") or 2048
    return MOBILENET_V5_300M + width * text


def muse_glimmer(vision: Fields, text: int) -> int:
    width, deep = vision.count("hidden_size"), vision.count("num_hidden_layers")
    block = vision_block(
        width, vision.count("intermediate_size"), bias=True, gated=False, norm_bias=True
    )
    frames = vision.maybe_count("patch_temporal") or 2
    positions = vision.count("pos_emb_height") * vision.count("pos_emb_width")
    merged = vision.maybe_count("out_hidden_size") or 4 * width
    projected = vision.maybe_count("projector_hidden_size") or 4096
    connector = merged * projected + projected * projected + projected * text
    front = frames * patch_embedding(vision, width) + (positions + 4) * width
    return deep * block + front + connector
