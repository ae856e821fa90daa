"""Which terms does a vLLM rank hold beside weights and cache?

``utilization x total`` is the budget; ``total`` is what CUDA reports, not the marketed size. Read
from vLLM 0.6.6 to 0.33 ``gpu_worker.py`` and ``config/cache.py``.
"""

from typing import NamedTuple, cast

from tonnage.engine import calibration
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.memory.runtimes.vllm_activations import activations, graph_class
from tonnage.engine.memory.runtimes.vllm_limits import Limits


class Terms(NamedTuple):
    """What a rank of one stage holds beside its cache."""

    activations: Estimate
    overhead: Estimate
    graphs: Estimate
    reserve: Estimate
    beyond_margin: Estimate
    """Graphs that the cache was sized without: what outgrows the margin is missing at capture."""


def terms_of_rank(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> Terms:
    """Less than the median of overhead and graphs is said here; more is in the activations'
    excess, which was measured together with them."""
    device = usable(case.accelerator)
    peak = activations(case, era, flags, limits)
    least, median = usual_overhead(case)
    overhead = Estimate(least, median, median)
    graphs = ZERO
    if not flags.enforce_eager:
        graphs = Estimate(*calibration.VLLM_GRAPH_BYTES[graph_class(case)])
        if era.cuda_graphs == "subtracted":
            graphs = Estimate(graphs.low, graphs.expected, graphs.expected)
    if flags.kv_cache_memory_bytes is not None:
        return Terms(peak, overhead, graphs, ZERO, ZERO)
    total = device.expected_bytes
    margin = total - int(total * utilization_of(era, flags))
    if era.other_programs == "refused":
        margin = max(margin - case.in_use_bytes, 0)
    beyond = ZERO
    if era.cuda_graphs == "in_margin":
        graphs = _outgrowing(graphs, margin)
        beyond = (graphs - Estimate.exact(margin)).at_least(0)
        margin -= min(margin, graphs.expected)
    reserve = Estimate(
        margin - (device.high_bytes - total), margin, margin + (total - device.low_bytes)
    ).at_least(0)
    return Terms(peak, overhead, graphs, reserve, beyond)


def usual_overhead(case: InferenceCase) -> tuple[int, int]:
    """Bytes outside the allocator, the least that was measured and the median."""
    if case.parallel.tensor * case.parallel.pipeline == 1:
        return calibration.VLLM_OVERHEAD_BYTES_ONE_RANK[:2]
    least, median, _ = calibration.VLLM_OVERHEAD_BYTES_MANY_RANKS
    linked = cast(VllmEra, case.era).linked_rank_overhead_bytes
    if linked and case.parallel.tensor > 1 and case.accelerator.scale_up_link:
        return least, linked
    return least, median


def utilization_of(era: VllmEra, flags: VllmFlags) -> float:
    return flags.gpu_memory_utilization or era.gpu_memory_utilization


def _outgrowing(graphs: Estimate, margin: int) -> Estimate:
    """Graphs that are captured into the margin after the cache was sized.

    Within the margin their uncertainty moves nothing; only what outgrows it is missing elsewhere.
    """
    expected = graphs.expected
    return Estimate(expected, expected, expected + max(graphs.high - max(margin, expected), 0))
