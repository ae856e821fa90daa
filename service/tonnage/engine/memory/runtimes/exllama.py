"""What do ExLlamaV2 and ExLlamaV3 hold on each device?

Weights at their bits, the embedding in system memory, a cache allocated whole at load for every
sequence at its longest, and working buffers for one chunk of a prompt. Read from ExLlamaV2's
``config.py``, ``linear.py`` and ``cache.py`` and ExLlamaV3's ``cache`` and ``generator``; no
measured run is behind the working buffers, which are an assumption and say so. Left out: tensor
parallel, draft models, vision towers.
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import Capacity, Entry, InferenceFit, Ledger, Note, ledger
from tonnage.engine.caches import StateCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import ExllamaEra
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import ExllamaFlags
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
from tonnage.engine.values import ceil_div, round_up


def estimate(case: InferenceCase) -> InferenceFit:
    found = rank_ledgers(case)
    embedding, _ = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    cells = case.workload.context_tokens * case.workload.concurrent_sequences
    return InferenceFit(
        verdict=worst(found),
        bound_by=bound_by(found),
        ledgers=tuple(found),
        capacity=_capacity(case),
        host_bytes=embedding,
        assumptions=(
            Note(
                code="cache_is_allocated_whole",
                text=f"A cache of {cells} tokens is allocated at load; layers are split over the "
                "accelerators in order.",
            ),
            Note(
                code="working_buffers_assumed",
                text="The working buffers of a chunk of a prompt are an assumption from the "
                "source: no measured run is behind them.",
            ),
        ),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of each device."""
    check_unsplit(
        case,
        "layers are split over hardware.count accelerators in order; it is modelled without",
    )
    check_context(case)
    check_devices(case, case.model.layer_count, "whole layers are placed")
    return _ledgers(case, case.workload.context_tokens, case.workload.concurrent_sequences)


def layer_cache_bytes(case: InferenceCase, name: str, context: int, sequences: int) -> int:
    """Whole pages for every sequence; sliding layers keep all, latent attention every head."""
    page = cast(ExllamaEra, case.era).page_tokens
    keys, values = case.key_cache.encoding, case.value_cache.encoding
    return sum(
        sequences * state_bytes(cache, 1)
        if isinstance(cache, StateCache)
        else sequences
        * round_up(context, page)
        * token_bytes(cache, 1, keys.bits_per_element, values.bits_per_element)
        for cache in case.model.expanded_caches()[name]
    )


def working_bytes(case: InferenceCase, context: int) -> int:
    """A chunk's vectors in one layer and its logits, beside the widest matrix unpacked."""
    era, flags, model = cast(ExllamaEra, case.era), cast(ExllamaFlags, case.flags), case.model
    tokens = min(flags.max_chunk_size or era.chunk_tokens, context)
    layer = tokens * (3 * model.widest_feed_forward + 4 * model.hidden_size)
    widest = max(model.vocabulary_size, model.widest_feed_forward) * model.hidden_size
    return 2 * (max(layer, tokens * model.vocabulary_size) + min(widest, era.dequantized_elements))


def _ledgers(case: InferenceCase, context: int, sequences: int) -> list[Ledger]:
    model, encoding = case.model, case.weights.encoding
    layers = layer_bytes(model, encoding, 1, 1)
    _, head = vocabulary_bytes(model, encoding, 1, 1)
    caches = {n: layer_cache_bytes(case, n, context, sequences) for n in model.kinds}
    memory, per_device = usable(case.accelerator), ceil_div(model.layer_count, case.count)
    found = []
    for device in range(case.count):
        names = model.order[device * per_device : (device + 1) * per_device]
        weights = sum(layers[name] for name in names)
        if device == case.count - 1:
            weights += head + final_norm_bytes(model, encoding) + extra_bytes(model, encoding, 1)
        entries = [
            Entry("weights", Estimate.exact(weights), f"weights by module, {case.weights.id}"),
            Entry(
                "kv_cache",
                Estimate.exact(sum(caches[name] for name in names)),
                f"cache of whole pages, {case.key_cache.id}",
            ),
            Entry(
                "activations",
                scaled(working_bytes(case, context), calibration.EXLLAMA_WORKING_RATIO),
                "working buffers of one chunk, assumed",
            ),
            Entry(
                "runtime_overhead",
                Estimate(*calibration.TRANSFORMERS_CONTEXT_BYTES),
                "CUDA context with PyTorch, assumed",
            ),
            Entry("reserve", device_margin(memory), "how far the device's total is not known"),
            Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
        ]
        found.append(ledger((device,), memory.expected_bytes, entries))
    return found


def _capacity(case: InferenceCase) -> Capacity:
    page = cast(ExllamaEra, case.era).page_tokens
    one, two = (
        sum(
            count * layer_cache_bytes(case, name, pages * page, 1)
            for name, count in case.model.layer_counts.items()
        )
        for pages in (1, 2)
    )
    return searched_capacity(
        case,
        lambda context, sequences: _ledgers(case, context, sequences),
        kv_bytes_per_token=(two - one) // page,
    )
