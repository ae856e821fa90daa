"""How much memory does a forward pass take at its peak, beside weights and cache?

The largest of two moments counts, since they do not overlap: the widest layer over the profiled
batch, and the sampler over the vocabulary. Both were found in vLLM's own profile lines and hold for
PyTorch code in general; what scatters around them is in the calibration.
"""

from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import ceil_div

FLASHINFER_BYTES_PER_LOGIT = 12
"""Logits, probabilities and one copy (vLLM 0.9-0.11 logs of servers that name the sampler)."""


def sampler_bytes(sequences: int, vocabulary_size: int, bytes_per_logit: int) -> int:
    """Float32 logits, their sort, indices and masks; not divided by the tensor parallel size."""
    return bytes_per_logit * sequences * vocabulary_size


def forward_bytes(model: ModelArchitecture, batch_tokens: int, tensor: int) -> int:
    """The widest feed-forward of a 16-bit batch: gate, up and product, and four hidden vectors."""
    wide = 3 * ceil_div(model.widest_feed_forward, tensor)
    return 2 * batch_tokens * (wide + 4 * model.hidden_size)


def score_bytes(model: ModelArchitecture, batch_tokens: int, context_tokens: int) -> int:
    """The quadratic score matrix of eager attention: 16-bit scores and a float32 softmax."""
    heads = max(model.attention_heads, default=0)
    return 6 * heads * batch_tokens * context_tokens
