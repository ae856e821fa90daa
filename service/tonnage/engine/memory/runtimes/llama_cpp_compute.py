"""How large is llama.cpp's compute buffer on one device, and what does CUDA take beside it?

Float32 tensors of one micro-batch: logits and a hidden vector, or what attention and feed-forward
hold together. Read from the graphs of llama.cpp (``llama-graph.cpp``, ``ggml-alloc.c``) and checked
against the buffers that builds b1619-b8131 and ik_llama.cpp print. Left out: gaps that the
allocator leaves between tensors (the calibrated ratio is for them), buffers of an image encoder.
"""

from typing import cast

from tonnage.engine.attention import Attention, LatentAttention
from tonnage.engine.caches import TokenCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import LlamaCppEra
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    Placement,
    backend,
    flash_attention,
    host_layers,
    layer_caches,
    matrices,
    micro_batch,
    output_bytes,
    placement,
)
from tonnage.engine.model import ModelArchitecture

PIPELINE_COPIES = 5
"""Copies of the attention mask that layers split over devices keep without flash attention."""
MASK_BYTES = 6
"""A float32 mask and its half-precision copy, for each cell and token of the micro-batch."""
COPYING_BACKENDS = ("cuda", "rocm", "vulkan")
"""Those that take large batches of work on weights in system memory (ggml ``offload_op``)."""
LEAST_COPYING_BATCH = 32
"""Tokens from which on they do (``offload_op``)."""
HALVED_BACKENDS = ("cuda", "rocm")
"""Those whose flash attention reads a quantized cache through a half-precision copy."""


def compute_bytes(
    case: InferenceCase, context: int, placed: Placement | None = None, device: int = 0
) -> int:
    """The compute buffer of one device, before what the allocator leaves between tensors.

    The first device has room for a copy of the largest matrix that stays in system memory and is
    worked on there: the output layer's beside the logits, a layer's beside its hidden vectors.
    """
    era = cast(LlamaCppEra, case.era)
    placed = placed or placement(case)
    output_copy = layer_copy = 0
    copies = era.copies_host_matrices and backend(case) in COPYING_BACKENDS
    copies = copies and micro_batch(case, context) >= LEAST_COPYING_BATCH
    if copies and device == 0:
        output_copy = 0 if placed.output else output_bytes(case)
        layer_copy = largest_host_matrix(case, placed)
    floats = 4 * micro_batch(case, context)
    logits = floats * (case.model.vocabulary_size + case.model.hidden_size) + output_copy
    layers = floats * _widest_layer(case, context) + layer_copy
    metadata = era.graph_metadata_bytes if backend(case) == "metal" else 0
    return max(logits, layers) + metadata


def _widest_layer(case: InferenceCase, context: int) -> int:
    """Float32 values a token that a layer holds at once."""
    model = case.model
    hidden = model.hidden_size
    feed_forward = 2 * model.widest_feed_forward + 2 * hidden
    if flash_attention(case):
        return 0
    old = cast(LlamaCppEra, case.era).one_compute_buffer
    heads = max(model.attention_heads, default=0)
    masks = 2 if _mixes_windows(model) else 1
    copies = 0 if old or case.count == 1 else PIPELINE_COPIES * context
    scores = heads * context + masks * context
    return max(feed_forward + context, scores + _beside_scores(model, old)) + copies


def _beside_scores(model: ModelArchitecture, old: bool) -> int:
    """What stands beside the scores of the widest attention: queries, values, hidden vectors."""
    hidden = model.hidden_size
    found = 0
    for layer in model.layers:
        for mixer in layer.mixers:
            if isinstance(mixer, LatentAttention):
                head = mixer.no_position_head_dim + mixer.position_head_dim
                up = mixer.no_position_head_dim + mixer.value_head_dim
                found = max(found, mixer.query_heads * (head + up) + 3 * hidden)
            elif isinstance(mixer, Attention):
                query = mixer.query_heads * mixer.head_dim
                found = max(found, query + max(query, hidden) + (1 if old else 2) * hidden)
    return found or (3 if old else 4) * hidden


def _mixes_windows(model: ModelArchitecture) -> bool:
    """Whether some layers look further than others, for which there is a mask each."""
    windows = {
        cache.window_tokens
        for caches in model.layer_caches.values()
        for cache in caches
        if isinstance(cache, TokenCache)
    }
    return len(windows) > 1


def largest_host_matrix(case: InferenceCase, placed: Placement) -> int:
    """Bytes of the largest weight matrix of the layers in system memory."""
    return max(
        (
            amount
            for name in dict.fromkeys(host_layers(case, placed))
            for amount in matrices(case, name)
        ),
        default=0,
    )


def mask_bytes(case: InferenceCase, context: int) -> int:
    """The attention mask with flash attention, where it does not share the space of the logits."""
    return MASK_BYTES * context * micro_batch(case, context) if flash_attention(case) else 0


def halved_cache_bytes(case: InferenceCase, names: tuple[str, ...], context: int) -> int:
    """Half-precision copies of one layer's keys and values, beside the compute buffer.

    CUDA's flash attention makes them from a quantized cache for each prompt (llama.cpp
    ``fattn-common.cuh``); a Qwen3.8-27B with a q4_0 cache takes 4 heads x 256 x 4 bytes a token so.
    """
    on_device = not cast(LlamaCppFlags, case.flags).no_kv_offload
    if not (on_device and flash_attention(case) and backend(case) in HALVED_BACKENDS):
        return 0
    keys = case.key_cache.encoding.bits_per_element < 16
    values = case.value_cache.encoding.bits_per_element < 16
    elements = [
        cache.heads * (cache.key_elements * keys + cache.value_elements * values)
        for name in dict.fromkeys(names)
        for cache in layer_caches(case, name)
        if isinstance(cache, TokenCache)
    ]
    return 2 * context * max(elements, default=0)
