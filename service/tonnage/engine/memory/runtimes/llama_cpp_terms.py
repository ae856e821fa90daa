"""What does each layer take under llama.cpp, on a device or in system memory?

The token embedding stays in system memory even at full offload (a tied one is held twice); the
cache has ``context x sequences`` cells, padded, and sliding-window layers only their window and one
micro-batch; compute buffers are float32. Checked against the buffers that builds b1691-b7500 print.
"""

from typing import cast

from tonnage.engine.caches import StateCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.memory.weights import (
    extra_bytes,
    final_norm_bytes,
    layer_bytes,
    vocabulary_bytes,
)
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import LlamaCppEra
from tonnage.engine.values import ceil_div, round_up

PIPELINE_COPIES = 5
"""Copies of the attention mask that layers split over devices keep without flash attention."""
STATE_BITS = 32
"""llama.cpp keeps recurrent and convolution states as float32."""


def micro_batch(case: InferenceCase) -> int:
    flags, era = cast(LlamaCppFlags, case.flags), cast(LlamaCppEra, case.era)
    return flags.ubatch_size or era.micro_batch_tokens


def layer_cache_bytes(case: InferenceCase, name: str, context: int, sequences: int) -> int:
    """Bytes that one layer of this kind caches for all sequences."""
    era, flags = cast(LlamaCppEra, case.era), cast(LlamaCppFlags, case.flags)
    padding = era.context_padding_tokens
    cells = round_up(context * sequences, padding)
    found = 0
    model = case.model
    caches = model.layer_caches if era.latent_cache else model.expanded_caches()
    for cache in caches[name]:
        if isinstance(cache, StateCache):
            found += sequences * state_bytes(cache, 1, STATE_BITS, STATE_BITS)
            continue
        kept = cells
        if cache.window_tokens and era.local_layers == "windowed" and not flags.swa_full:
            window = round_up(cache.window_tokens + micro_batch(case), padding)
            kept = min(cells, sequences * window)
        found += kept * token_bytes(
            cache,
            1,
            case.key_cache.encoding.bits_per_element,
            case.value_cache.encoding.bits_per_element,
        )
    return found


def compute_bytes(case: InferenceCase, context: int) -> int:
    """The float32 compute buffer of one device: logits and hidden vectors, or attention scores."""
    model, tokens = case.model, micro_batch(case)
    vocabulary, hidden = model.vocabulary_size, model.hidden_size
    if flash_attention(case):
        return 4 * tokens * (vocabulary + hidden)
    old = cast(LlamaCppEra, case.era).one_compute_buffer
    heads = max(model.attention_heads, default=0)
    widest = max(
        vocabulary + hidden,
        2 * model.widest_feed_forward + 2 * hidden + context,
        (heads + 1) * context + (3 if old else 4) * hidden,
    )
    copies = 0 if old or case.count == 1 else PIPELINE_COPIES * context
    return 4 * tokens * (widest + copies)


def flash_attention(case: InferenceCase) -> bool:
    flags, era = cast(LlamaCppFlags, case.flags), cast(LlamaCppEra, case.era)
    return era.flash_attention if flags.flash_attn is None else flags.flash_attn


def split(model: ModelArchitecture, offloaded: int, devices: int) -> tuple[tuple[str, ...], ...]:
    """The names of the layers on each device: the last ones are offloaded, in equal runs."""
    layers = min(offloaded, model.layer_count)
    names = model.order[model.layer_count - layers :]
    per_device = ceil_div(len(names), devices) if names else 0
    return tuple(names[i * per_device : (i + 1) * per_device] for i in range(devices))


def output_bytes(case: InferenceCase) -> int:
    _, head = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    return (
        head
        + final_norm_bytes(case.model, case.weights.encoding)
        + extra_bytes(case.model, case.weights.encoding, 1, encoder=False)
    )


def host_bytes(case: InferenceCase, offloaded: int, context: int, sequences: int) -> int:
    """Weights and cache that stay in system memory, the token embedding among them."""
    flags = cast(LlamaCppFlags, case.flags)
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    embedding, _ = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    kept = case.model.order[: max(case.model.layer_count - offloaded, 0)]
    amount = embedding + sum(layers[name] for name in kept)
    if offloaded <= case.model.layer_count:
        amount += output_bytes(case) - (embedding if case.model.tied_embeddings else 0)
    cached = case.model.order if flags.no_kv_offload else kept
    return amount + sum(layer_cache_bytes(case, name, context, sequences) for name in cached)
