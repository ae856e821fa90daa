"""What does llama.cpp place on each device, and how many layers or tokens fit?

``weights of the offloaded layers + their cache + a compute buffer + the backend's context``, per
device. Layers are split over the devices in equal runs, the last ones first offloaded; each device
has a whole compute buffer. Left out: several copies of inputs under pipeline parallelism, tensors
that other builds make at load, and row and tensor splits.
"""

from typing import cast

from tonnage.engine.answer import Capacity, InferenceFit, Ledger, Note
from tonnage.engine.caches import StateCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import Contradiction
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.memory.capacity import searched_capacity
from tonnage.engine.memory.kv_cache import token_bytes
from tonnage.engine.memory.runtimes.llama_cpp_ledger import ledgers
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    flash_attention,
    host_bytes,
    layer_caches,
    micro_batch,
    placement,
)
from tonnage.engine.memory.runtimes.shared import check_context, check_devices, check_unsplit
from tonnage.engine.memory.runtimes.verdict import bound_by, least_free, worst

MOST_DEVICES = 16
"""``GGML_MAX_SPLIT``-sized device lists (llama.cpp ``llama_max_devices``)."""


def estimate(case: InferenceCase) -> InferenceFit:
    flags = cast(LlamaCppFlags, case.flags)
    wanted = offloaded(case)
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    found = rank_ledgers(case)
    return InferenceFit(
        verdict=worst(found),
        bound_by=bound_by(found),
        ledgers=tuple(found),
        capacity=capacity(case, wanted),
        host_bytes=host_bytes(case, placement(case, wanted), context, sequences),
        assumptions=_assumptions(case, flags, wanted),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of each device."""
    check(case)
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    return ledgers(case, offloaded(case), context, sequences)


def offloaded(case: InferenceCase) -> int:
    """Layers on the devices; the output layer counts as one more than the model's."""
    everything = case.model.layer_count + 1
    wanted = cast(LlamaCppFlags, case.flags).n_gpu_layers
    return everything if wanted is None else min(wanted, everything)


def check(case: InferenceCase) -> None:
    check_unsplit(
        case,
        "llama.cpp splits layers over hardware.count devices by itself, without",
    )
    check_context(case)
    check_devices(case, MOST_DEVICES, f"llama.cpp splits over at most {MOST_DEVICES}")
    if case.value_cache.encoding.bits_per_element < 16 and not flash_attention(case):
        raise Contradiction(
            f"a value cache in {case.value_cache.id} needs flash attention, which is off",
            pointer="/runtime/flags/flash_attn",
            remedy="true, or fp16 for the values",
        )


def most_layers(case: InferenceCase) -> int:
    """The most layers that fit at the context asked for, the output layer counted as one.

    Not searched by halves: with layers of several sizes, more of them may be split over devices
    better.
    """
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    everything = case.model.layer_count + 1
    return next(
        (
            layers
            for layers in range(everything, 0, -1)
            if least_free(ledgers(case, layers, context, sequences)).expected >= 0
        ),
        0,
    )


def capacity(case: InferenceCase, wanted: int) -> Capacity:
    return searched_capacity(
        case,
        lambda context, sequences: ledgers(case, wanted, context, sequences),
        kv_bytes_per_token=_token_bytes(case),
        layers_on_accelerator=most_layers(case),
    )


def _token_bytes(case: InferenceCase) -> int:
    """What one more token costs in all layers together, windows and states being full."""
    return sum(
        token_bytes(
            cache,
            1,
            case.key_cache.encoding.bits_per_element,
            case.value_cache.encoding.bits_per_element,
        )
        for name in case.model.order
        for cache in layer_caches(case, name)
        if not isinstance(cache, StateCache) and cache.window_tokens is None
    )


def _assumptions(case: InferenceCase, flags: LlamaCppFlags, offloaded: int) -> tuple[Note, ...]:
    cells = case.workload.context_tokens * case.workload.concurrent_sequences
    notes = [
        Note(
            code="context_is_shared",
            text=f"llama-server is started with --ctx-size {cells} and --parallel "
            f"{case.workload.concurrent_sequences}, micro-batch {micro_batch(case, cells)}, flash "
            f"attention {'on' if flash_attention(case) else 'off'}.",
        )
    ]
    if flags.n_gpu_layers is None:
        notes.append(
            Note(
                code="all_layers_offloaded",
                text=f"All {offloaded} layers (output layer included) are on the accelerators.",
                pointer="/runtime/flags/n_gpu_layers",
            )
        )
    return tuple(notes)
