"""How many bytes does one layer cache, per token or per sequence, on one rank?

Grouped queries: 2 x heads x head dim; heads are split over tensor ranks and copied once there are
fewer heads than ranks. The latent of multi-head latent attention is one head, so every tensor rank
holds all of it (vLLM issue 51454 measured the eightfold). State layers keep a fixed amount.
"""

from math import ceil

from tonnage.engine.caches import StateCache, TokenCache
from tonnage.engine.values import ceil_div


def token_bytes(cache: TokenCache, tensor: int, key_bits: float, value_bits: float) -> int:
    """Bytes of one token in one layer on one rank."""
    if cache.fp8_bytes is not None and key_bits == 8:
        return cache.fp8_bytes + cache.index_bytes
    bits = cache.key_elements * key_bits + cache.value_elements * value_bits
    return ceil(cache.heads_on_rank(tensor) * bits / 8) + cache.index_bytes


def state_bytes(
    cache: StateCache,
    tensor: int,
    model_bits: float = 16,
    least_bits: float = 0,
    drafted_tokens: int = 0,
) -> int:
    """Bytes of one sequence's state in one layer on one rank.

    ``least_bits`` is for runtimes that keep the recurrent part wider than the model asks;
    ``drafted_tokens`` are positions that the convolution keeps beside its own.
    """
    ranks = min(tensor, cache.heads)
    elements = cache.convolution_elements
    if drafted_tokens and cache.convolution_positions:
        elements += elements // cache.convolution_positions * drafted_tokens
    convolution = ceil_div(elements, ranks) * model_bits
    recurrent = ceil_div(cache.recurrent_elements, ranks) * max(cache.recurrent_bits, least_bits)
    return ceil((convolution + recurrent) / 8)
