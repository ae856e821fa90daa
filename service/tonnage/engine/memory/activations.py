"""How much memory does a forward pass take at its peak, beside weights and cache?

Moments that do not overlap: the widest layer over the profiled batch, the sampler over the
vocabulary, an encoder over the images or sounds of a batch. The largest counts. Each was found in
vLLM's own profile lines and holds for PyTorch code in general; what scatters is in the calibration.
"""

from functools import lru_cache

from tonnage.engine.feed_forward import Dense, MixtureOfExperts
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Extra
from tonnage.engine.values import ceil_div

FLASHINFER_BYTES_PER_LOGIT = 12
"""Logits, probabilities and one copy (vLLM 0.9-0.11 logs of servers that name the sampler)."""
EXPERT_CHUNK_TOKENS = 32_768
"""Beyond this, vLLM's fused experts work in chunks (``VLLM_FUSED_MOE_CHUNK_SIZE``)."""


def sampler_bytes(sequences: int, vocabulary_size: int, bytes_per_logit: int) -> int:
    """Float32 logits, their sort, indices and masks; not divided by the tensor parallel size."""
    return bytes_per_logit * sequences * vocabulary_size


@lru_cache(maxsize=4096)
def forward_bytes(
    model: ModelArchitecture,
    batch_tokens: int,
    tensor: int,
    *,
    gathered_ranks: int = 1,
    whole_experts: bool = False,
) -> int:
    """The widest feed-forward of a 16-bit batch, and four hidden vectors of each token.

    ``gathered_ranks``: data-parallel ranks whose tokens come together at the experts, which are
    ``whole_experts`` or slices over all those ranks.
    """
    expert_slices = 1 if whole_experts else tensor * gathered_ranks
    widest = 0
    for parts in {layer.feed_forward for layer in model.layers}:
        elements = 0
        for part in parts:
            if isinstance(part, Dense):
                elements += batch_tokens * 3 * ceil_div(part.intermediate_size, tensor)
            else:
                elements += _routed(model, part, batch_tokens * gathered_ranks, expert_slices)
                elements += batch_tokens * 3 * ceil_div(part.shared_intermediate_size, tensor)
                if gathered_ranks > 1:
                    elements += 3 * model.hidden_size * batch_tokens * gathered_ranks
        widest = max(widest, elements)
    return 2 * (widest + 4 * model.hidden_size * batch_tokens)


def _routed(model: ModelArchitecture, part: MixtureOfExperts, tokens: int, slices: int) -> int:
    """Elements of the experts' buffers for all that a token passes.

    One holds their input to the product and what they return, one the product (vLLM
    ``fused_moe.py``, ``intermediate_cache13`` and ``intermediate_cache2``).
    """
    hidden = part.expert_hidden_size or model.hidden_size
    wide = ceil_div(part.intermediate_size, slices)
    chunk = min(tokens, EXPERT_CHUNK_TOKENS)
    return chunk * part.experts_per_token * (max(2 * wide, hidden) + wide)


def encoder_vectors_bytes(
    extra: Extra, budget_tokens: int, longest_tokens: int, tensor: int
) -> int:
    """16-bit vectors of all positions that an encoder sees in one batch, on one rank.

    A batch holds as many images or sounds as ``budget_tokens`` admits, and at least one, which is
    no longer than the sequence that it is part of.
    """
    shape = extra.profile
    if shape is None:
        return 0
    tokens = max(min(shape.tokens_per_item, longest_tokens), 1)
    items = max(budget_tokens // tokens, 1)
    positions = items * ceil_div(shape.positions_per_item * tokens, shape.tokens_per_item)
    return ceil_div(2 * positions * shape.width, tensor)


def score_bytes(model: ModelArchitecture, batch_tokens: int, context_tokens: int) -> int:
    """The quadratic score matrix of eager attention: 16-bit scores and a float32 softmax."""
    heads = max(model.attention_heads, default=0)
    return 6 * heads * batch_tokens * context_tokens
