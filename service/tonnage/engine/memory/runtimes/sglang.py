"""What does SGLang leave for its pool of tokens, and what has to live in the rest?

``pool = free after load - (1 - mem_fraction_static) x free before load``, per rank, the least over
the ranks; activations and CUDA graphs live in the (1 - f) part. Without the flag f comes from
tensor ranks, or from a reserve for the prefill chunk and the graphs, by version. Read from SGLang
0.3.6 to 0.5.23 ``server_args.py`` and ``model_runner.py``, checked against logs in its issues.
What a load takes is the free memory that it cost: segments and kernels beside the weights.
Left out: draft models, hierarchical cache, pools apart for windows and states, the request index.
"""

from typing import NamedTuple, cast

import msgspec

from tonnage.engine import calibration
from tonnage.engine.answer import InferenceFit, Ledger, Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import DeviceTier, SglangEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import SglangFlags
from tonnage.engine.memory.activations import forward_bytes
from tonnage.engine.memory.capacity import MOST_SEQUENCES, Pool, PoolRules
from tonnage.engine.memory.loaded import loaded
from tonnage.engine.memory.runtimes.pool_server import (
    Server,
    Sources,
    Stage,
    cache_of_stages,
    fit_of,
    ledgers_and_pools,
)
from tonnage.engine.memory.runtimes.shared import (
    check_context,
    check_layout,
    check_length,
    usable,
)
from tonnage.engine.values import GIB, MIB

LARGE_DEVICE_GIB = 96
GRAPH_BYTES_PER_SEQUENCE = 2 * MIB
"""What SGLang itself reckons for each sequence of its largest graph (``server_args.py``)."""


class _Limits(NamedTuple):
    chunk_tokens: int
    graph_sequences: int


def estimate(case: InferenceCase) -> InferenceFit:
    groups, layout = _attention_groups(case)
    return fit_of(layout, _server(layout, groups), _assumptions(layout))


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    groups, layout = _attention_groups(case)
    return ledgers_and_pools(layout, _server(layout, groups))[0]


def pools(case: InferenceCase) -> list[Pool]:
    groups, layout = _attention_groups(case)
    return ledgers_and_pools(layout, _server(layout, groups))[1]


def _attention_groups(case: InferenceCase) -> tuple[int, InferenceCase]:
    """How many groups of tensor ranks keep a cache each, and the layout without them."""
    parallel = case.parallel
    if not cast(SglangFlags, case.flags).enable_dp_attention:
        return 1, case
    if parallel.tensor % parallel.data:
        raise Contradiction(
            f"{parallel.data} attention groups do not divide tensor parallel size "
            f"{parallel.tensor}",
            pointer="/parallel/data",
            remedy=f"a size that divides {parallel.tensor}",
        )
    inside = msgspec.structs.replace(parallel, data=1)
    return parallel.data, msgspec.structs.replace(case, parallel=inside)


def _server(case: InferenceCase, groups: int) -> Server:
    flags = cast(SglangFlags, case.flags)
    check_layout(case)
    check_context(case)
    check_length(case, "context_length", flags.context_length)
    longest = case.model.longest_context_tokens
    if flags.context_length is not None and flags.context_length > longest:
        raise Contradiction(
            f"context_length {flags.context_length} is more than the model's longest context of "
            f"{longest}",
            pointer="/runtime/flags/context_length",
            remedy=f"at most {longest}",
        )
    attention = case.parallel.tensor // groups
    era = cast(SglangEra, case.era)
    caches = cache_of_stages(
        case, attention, flags.page_size or era.cache_page_tokens, windowed=True
    )
    beside = Estimate(*calibration.SGLANG_LOAD_BYTES)
    weights = [
        (amount + beside).at_least(0) for amount in loaded(case, attention, case.parallel.tensor)
    ]
    capped, running = flags.max_total_tokens, flags.max_running_requests
    return Server(
        stages=[_stage(case, amount) for amount in weights],
        caches=caches,
        rules=PoolRules(
            longest_tokens=flags.context_length or longest,
            most_sequences=running or MOST_SEQUENCES,
            groups=groups,
        ),
        sources=Sources(
            activations="widest layer over the prefill chunk",
            overhead="device context and communication, assumed",
            reserve=f"1 - mem_fraction_static, SGLang {case.version}",
        ),
        most_pool_bytes=[
            None if capped is None else capped * max(cache.token_bytes, 1) for cache in caches
        ],
        most_at_once=None if running is None else ("max_running_requests", running),
    )


def _stage(case: InferenceCase, weights: Estimate) -> Stage:
    total = usable(case.accelerator).expected_bytes
    ranks = "many_ranks" if case.parallel.tensor * case.parallel.pipeline > 1 else "one_rank"
    overhead = Estimate(*calibration.SGLANG_OVERHEAD_BYTES[ranks])
    before = Estimate.exact(total - case.in_use_bytes) - overhead
    share = 1 - static_fraction(case)
    kept = Estimate(*(max(round(n * share), 0) for n in (before.low, before.expected, before.high)))
    limits = _limits(case)
    activations = Estimate.exact(
        forward_bytes(case.model, limits.chunk_tokens, case.parallel.tensor)
    )
    graphs = ZERO
    if not cast(SglangFlags, case.flags).disable_cuda_graph:
        graphs = Estimate.exact(limits.graph_sequences * GRAPH_BYTES_PER_SEQUENCE)
    inside = activations.expected + graphs.expected
    rest = (kept - Estimate.exact(inside)).at_least(0)
    return Stage(weights, overhead, activations, graphs, rest)


def static_fraction(case: InferenceCase) -> float:
    """``mem_fraction_static``: as set, or as the version derives it."""
    flags, era = cast(SglangFlags, case.flags), cast(SglangEra, case.era)
    if flags.mem_fraction_static is not None:
        return flags.mem_fraction_static
    memory_gib = usable(case.accelerator).expected_bytes / GIB
    ranks = case.parallel.tensor * case.parallel.pipeline
    if era.fractions:
        fraction = next(f.fraction for f in era.fractions if ranks >= f.ranks)
        if era.large_device_correction and memory_gib > LARGE_DEVICE_GIB:
            corrected = fraction + 48 * (1 - fraction) / memory_gib
            return min(corrected, (memory_gib - 18) / memory_gib)
        return fraction
    limits = _limits(case)
    tier = next(t for t in era.reserve_tiers if t.below_gib is None or memory_gib < t.below_gib)
    reserve = (
        tier.base_mib
        + tier.mib_per_rank * ranks
        + tier.mib_per_chunked_token * max(limits.chunk_tokens, 2048)
        + tier.mib_per_graph_sequence * limits.graph_sequences
    )
    kept_gib = max(reserve, tier.least_mib) * MIB / GIB
    return min(max((memory_gib - kept_gib) / memory_gib, 0.05), 0.99)


def _limits(case: InferenceCase) -> _Limits:
    flags, era = cast(SglangFlags, case.flags), cast(SglangEra, case.era)
    chunk = flags.chunked_prefill_size or _of_device(case, era.chunked_prefill_tiers)
    graphs = flags.cuda_graph_max_bs or _of_device(case, era.graph_batch_tiers)
    return _Limits(min(chunk, case.model.longest_context_tokens), graphs)


def _of_device(case: InferenceCase, tiers: tuple[DeviceTier, ...]) -> int:
    memory_gib = usable(case.accelerator).expected_bytes / GIB
    tier = next(t for t in tiers if t.below_gib is None or memory_gib < t.below_gib)
    if case.parallel.tensor >= 4 and tier.amount_from_four_ranks is not None:
        return tier.amount_from_four_ranks
    return tier.amount


def _assumptions(case: InferenceCase) -> tuple[Note, ...]:
    flags = cast(SglangFlags, case.flags)
    if flags.mem_fraction_static is not None:
        return ()
    return (
        Note(
            code="default_mem_fraction_static",
            text=f"mem_fraction_static {static_fraction(case):.3f}, as SGLang {case.version} "
            "derives it for this device and layout.",
            pointer="/runtime/flags/mem_fraction_static",
        ),
    )
