"""What does llama.cpp hold on each device, for a number of layers, a context and its sequences?

Layers are split over the devices in equal runs; builds before b1842 share every matrix by rows, and
the first device has the whole cache. Every device has a compute buffer and the backend's context.
Left out: shares set by hand (``--tensor-split``), row and tensor splits of later builds.
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import Entry, Ledger, ledger
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import LlamaCppEra
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.memory.runtimes.llama_cpp_compute import (
    compute_bytes,
    halved_cache_bytes,
    mask_bytes,
)
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    Placement,
    allocation_waste,
    backend,
    layer_cache_bytes,
    output_bytes,
    pinned_weights,
    placement,
    split,
)
from tonnage.engine.memory.runtimes.shared import device_margin, scaled, usable
from tonnage.engine.memory.weights import layer_bytes
from tonnage.engine.values import ceil_div


def ledgers(case: InferenceCase, offloaded: int, context: int, sequences: int) -> list[Ledger]:
    placed = placement(case, offloaded)
    runs = split(case.model, placed.layers, case.count)
    if cast(LlamaCppEra, case.era).row_split:
        runs = split(case.model, placed.layers, 1) * case.count
    return [
        _ledger(case, device, names, placed, context, sequences)
        for device, names in enumerate(runs)
    ]


def _ledger(
    case: InferenceCase,
    device: int,
    names: tuple[str, ...],
    placed: Placement,
    context: int,
    sequences: int,
) -> Ledger:
    memory = usable(case.accelerator)
    era, count = cast(LlamaCppEra, case.era), case.count
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    weights = sum(layers[name] for name in names)
    if placed.output and (era.row_split or device == count - 1):
        weights += output_bytes(case)
    parts = count if era.row_split else 1
    weights = ceil_div(weights, parts)
    cached = () if era.row_split and device else names
    pinned = 0 if device else pinned_weights(case, placed)
    halved = halved_cache_bytes(case, names, context * sequences)
    waste = allocation_waste(case, names, parts)
    entries = [
        Entry(
            "weights",
            Estimate.exact(weights + pinned),
            f"weights by module, {case.weights.id}" + (", host's pinned" if pinned else ""),
        ),
        Entry(
            "kv_cache",
            Estimate.exact(_cached(case, cached, context, sequences)),
            f"cache cells, {case.key_cache.id}",
        ),
        Entry(
            "activations",
            compute_estimate(case, device, context * sequences, placed) + Estimate.exact(halved),
            "compute buffer, calibrated" + (", and a layer's cache in 16 bits" if halved else ""),
        ),
        Entry(
            "runtime_overhead",
            Estimate(*calibration.LLAMA_CPP_CONTEXT_BYTES[backend(case)]) + Estimate.exact(waste),
            "backend context, calibrated" + (", and steps of allocation" if waste else ""),
        ),
        Entry("reserve", device_margin(memory), "how far the device's total is not known"),
        Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
    ]
    return ledger((device,), memory.expected_bytes, entries)


def _idle(case: InferenceCase, device: int, placed: Placement) -> bool:
    """Whether no layer is on the device."""
    holds_output = placed.output and device == case.count - 1
    return not holds_output and not split(case.model, placed.layers, case.count)[device]


def compute_estimate(
    case: InferenceCase, device: int, context: int, placed: Placement | None = None
) -> Estimate:
    """The compute buffer of one device; older builds have one for all, held by the first."""
    placed = placed or placement(case)
    if device and (cast(LlamaCppEra, case.era).one_compute_buffer or _idle(case, device, placed)):
        return ZERO
    found = scaled(
        compute_bytes(case, context, placed, device), calibration.LLAMA_CPP_COMPUTE_RATIO
    )
    masked = found.expected + mask_bytes(case, context)
    return Estimate(found.low, found.expected, max(found.high, masked))


def _cached(case: InferenceCase, names: tuple[str, ...], context: int, sequences: int) -> int:
    if cast(LlamaCppFlags, case.flags).no_kv_offload:
        return 0
    return sum(
        names.count(name) * layer_cache_bytes(case, name, context, sequences)
        for name in dict.fromkeys(names)
    )
