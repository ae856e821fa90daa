"""Shapes that vision towers have in common."""

from .fields import Fields


def vision_block(width: int, feed_forward: int, *, bias: bool, gated: bool, norm_bias: bool) -> int:
    matrices = 4 * width * width + (2 + gated) * width * feed_forward
    biases = (4 * width + (1 + gated) * feed_forward + width) if bias else 0
    return matrices + biases + 2 * width * (1 + norm_bias)


def square_patches(fields: Fields) -> int:
    """Patches of an image."""
    side = fields.count("image_size") // fields.count("patch_size")
    return side * side


def patch_embedding(fields: Fields, width: int) -> int:
    channels = fields.maybe_count("num_channels", "in_channels", "in_chans") or 3
    return channels * fields.count("patch_size") ** 2 * width


def merger(merged: int, text: int, norm: int) -> int:
    return norm + merged * merged + merged + merged * text + text
