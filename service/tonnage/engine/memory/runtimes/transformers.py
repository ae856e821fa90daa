"""What does a Transformers ``generate`` hold on each device?

Weights as loaded, placed in layer order by ``device_map="auto"``; a cache that grows with the
tokens (latent attention is cached expanded, per head); the widest layer of the prefill; the CUDA
context and the allocator's fragmentation. Read from transformers 4.56-5.24 ``cache_utils.py``.
Left out: several copies under data parallelism (start one process a replica).
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import Capacity, Entry, InferenceFit, Ledger, Note, ledger
from tonnage.engine.attention import LatentAttention
from tonnage.engine.caches import StateCache, TokenCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import TransformersEra
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import TransformersFlags
from tonnage.engine.memory.activations import forward_bytes, score_bytes
from tonnage.engine.memory.capacity import searched_capacity
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.memory.runtimes.shared import (
    check_context,
    check_devices,
    check_unsplit,
    device_margin,
    scaled,
    usable,
)
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.memory.weights import (
    extra_bytes,
    final_norm_bytes,
    layer_bytes,
    vocabulary_bytes,
)
from tonnage.engine.values import ceil_div


def estimate(case: InferenceCase) -> InferenceFit:
    ledgers = rank_ledgers(case)
    return InferenceFit(
        verdict=worst(ledgers),
        bound_by=bound_by(ledgers),
        ledgers=tuple(ledgers),
        capacity=_capacity(case),
        host_bytes=0,
        assumptions=(
            Note(
                code="batched_generation",
                text=f"One generate call with a batch of {case.workload.concurrent_sequences}, "
                "prompts prefilled together, attention without a score matrix unless "
                "attn_implementation is eager.",
            ),
        ),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of each device."""
    check_unsplit(
        case,
        "Transformers places layers over hardware.count devices with device_map; "
        "it is modelled without",
    )
    check_context(case)
    check_devices(case, case.model.layer_count, "device_map places whole layers")
    return _ledgers(case, case.workload.context_tokens, case.workload.concurrent_sequences)


def _runs(case: InferenceCase) -> list[tuple[str, ...]]:
    """The names of the layers on each device, in order."""
    per_device = ceil_div(case.model.layer_count, case.count)
    order = case.model.order
    return [order[i * per_device : (i + 1) * per_device] for i in range(case.count)]


def layer_cache_bytes(case: InferenceCase, name: str, context: int) -> int:
    """Bytes that one layer of this kind caches for one sequence."""
    era = cast(TransformersEra, case.era)
    key, value = case.key_cache.encoding, case.value_cache.encoding
    found = 0
    for mixer in case.model.kinds[name].mixers:
        cache = mixer.cache(case.model.hidden_size)
        if isinstance(mixer, LatentAttention) and not era.latent_cache:
            cache = TokenCache(
                heads=mixer.query_heads,
                key_elements=mixer.no_position_head_dim + mixer.position_head_dim,
                value_elements=mixer.value_head_dim,
            )
        if isinstance(cache, StateCache):
            found += state_bytes(cache, 1)
        elif cache is not None:
            windowed = cache.window_tokens and era.local_layers == "windowed"
            tokens = min(context, cache.window_tokens or context) if windowed else context
            found += tokens * token_bytes(cache, 1, key.bits_per_element, value.bits_per_element)
    return found


def _ledgers(case: InferenceCase, context: int, sequences: int) -> list[Ledger]:
    flags = cast(TransformersFlags, case.flags)
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    embedding, head = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    caches = {name: layer_cache_bytes(case, name, context) for name in case.model.kinds}
    memory = usable(case.accelerator)
    peak = forward_bytes(case.model, context * sequences, 1)
    if flags.attn_implementation == "eager":
        peak += score_bytes(case.model, context * sequences, context)
    found = []
    for device, names in enumerate(_runs(case)):
        weights = sum(layers[name] for name in names)
        if device == 0:
            weights += embedding + extra_bytes(case.model, case.weights.encoding, 1)
        if device == case.count - 1:
            weights += final_norm_bytes(case.model, case.weights.encoding)
            if not (case.model.tied_embeddings and case.count == 1):
                weights += head
        cached = sequences * sum(names.count(name) * amount for name, amount in caches.items())
        entries = [
            Entry(
                "weights",
                Estimate.exact(weights),
                f"weights by module, {case.weights.id}",
            ),
            Entry("kv_cache", Estimate.exact(cached), f"dynamic cache, {case.key_cache.id}"),
            Entry(
                "activations",
                scaled(peak, calibration.TRANSFORMERS_ALLOCATOR_RATIO),
                "widest layer of the prefill",
            ),
            Entry(
                "runtime_overhead",
                Estimate(*calibration.TRANSFORMERS_CONTEXT_BYTES),
                "CUDA context, assumed",
            ),
            Entry("reserve", device_margin(memory), "how far the device's total is not known"),
            Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
        ]
        found.append(ledger((device,), memory.expected_bytes, entries))
    return found


def _capacity(case: InferenceCase) -> Capacity:
    limit = case.model.longest_context_tokens
    per_token = sum(
        count * (layer_cache_bytes(case, name, limit) - layer_cache_bytes(case, name, limit - 1))
        for name, count in case.model.layer_counts.items()
    )
    return searched_capacity(
        case,
        lambda context, sequences: _ledgers(case, context, sequences),
        kv_bytes_per_token=per_token,
    )
