"""What does vLLM account for on each rank, and how many tokens does its KV cache hold?

``available KV = utilization x total - weights - non-torch - activation peak [- CUDA graphs]``, per
rank; the least over the ranks decides. Eras of the runtime record say which terms a version counts.
"""

from typing import cast

from tonnage.engine.answer import Entry, InferenceFit, Ledger, Refusal, ledger
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.estimate import Estimate, total
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.capacity import Pool, PoolRules, pool_capacity
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.shared import (
    accelerators_of_stage,
    check_layout,
    gib,
    usable,
)
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.memory.runtimes.vllm_cache import cache_of_stage, states_up_front
from tonnage.engine.memory.runtimes.vllm_limits import Limits, batch_limits
from tonnage.engine.memory.runtimes.vllm_notes import assumptions, warnings
from tonnage.engine.memory.runtimes.vllm_terms import Terms, terms_of_rank, utilization_of
from tonnage.engine.memory.runtimes.vllm_weights import offloaded_bytes, weights_of_stages
from tonnage.engine.values import ceil_div


def estimate(case: InferenceCase) -> InferenceFit:
    limits = batch_limits(case, cast(VllmEra, case.era), cast(VllmFlags, case.flags))
    ledgers, pools = _stages(case, limits)
    return InferenceFit(
        verdict=worst(ledgers),
        bound_by=bound_by(ledgers),
        ledgers=tuple(ledgers),
        capacity=pool_capacity(case, _rules(case, limits), pools),
        host_bytes=offloaded_bytes(case),
        assumptions=assumptions(case, limits),
        warnings=warnings(case, limits, pools),
    )


def _rules(case: InferenceCase, limits: Limits) -> PoolRules:
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    return PoolRules(
        longest_tokens=flags.max_model_len or case.model.longest_context_tokens,
        most_sequences=limits.sequences,
        batched_tokens=limits.batched_tokens,
        start_tokens=limits.model_tokens,
        fixed_length=flags.max_model_len is not None,
        hybrids_by_concurrency=era.token_count_of_hybrids == "by_concurrency",
    )


def pools(case: InferenceCase) -> list[Pool]:
    """The cache of a rank of each pipeline stage, and the memory that vLLM finds for it."""
    limits = batch_limits(case, cast(VllmEra, case.era), cast(VllmFlags, case.flags))
    return _stages(case, limits)[1]


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of a rank of each pipeline stage."""
    limits = batch_limits(case, cast(VllmEra, case.era), cast(VllmFlags, case.flags))
    return _stages(case, limits)[0]


def _stages(case: InferenceCase, limits: Limits) -> tuple[list[Ledger], list[Pool]]:
    check_layout(case)
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    memory = usable(case.accelerator).expected_bytes
    terms = terms_of_rank(case, era, flags, limits)
    ledgers: list[Ledger] = []
    pools: list[Pool] = []
    for index, weights in enumerate(weights_of_stages(case)):
        cache = cache_of_stage(case, era, flags, index)
        needed = _needed(case, limits, cache)
        states = states_up_front(case, limits, index)
        held = total([weights, terms.activations, terms.overhead, terms.graphs])
        free = Estimate.exact(memory - case.in_use_bytes - states) - held
        cached = _cached(flags, needed, free)
        entries = [
            Entry("weights", weights, f"weights by module, {case.weights.id}"),
            Entry("kv_cache", Estimate.exact(cached), f"paged cache, {case.key_cache.id}"),
            Entry(
                "state_cache",
                Estimate.exact(states),
                "states for max_num_seqs sequences, allocated at load",
            ),
            Entry("activations", terms.activations, "largest of sampler and forward, calibrated"),
            Entry("runtime_overhead", terms.overhead, "outside the allocator, calibrated"),
            Entry("cuda_graphs", terms.graphs, "graphs captured by vLLM, calibrated"),
            _reserve(case, flags, terms, free),
            Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
        ]
        refusal = _refusal(case, era, flags, needed, free)
        start = cache.block_bytes * cache.blocks(limits.model_tokens, limits.batched_tokens)
        ranks = ledger(accelerators_of_stage(case, index), memory, entries, refusal, start)
        ledgers.append(ranks)
        left = _pool(flags, ranks, cached)
        printed = left + _reversed(terms.beyond_margin)
        if flags.kv_cache_memory_bytes is not None:
            printed = Estimate.exact(flags.kv_cache_memory_bytes)
        pools.append(Pool(cache, left, printed))
    return ledgers, pools


def _needed(case: InferenceCase, limits: Limits, cache: PagedCache) -> int:
    """For the sequences asked for, and for the one of full length that a start needs room for."""
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    return cache.block_bytes * max(
        cache.blocks_of_many(
            case.workload.context_tokens,
            limits.batched_tokens,
            sequences,
            case.workload.shared_prefix_tokens,
        ),
        cache.blocks(limits.model_tokens, limits.batched_tokens),
    )


def _cached(flags: VllmFlags, needed: int, free: Estimate) -> int:
    """A cache whose size is set is allocated whole, which tells where not all of it is free."""
    size = flags.kv_cache_memory_bytes or 0
    return max(needed, size) if size > free.low else needed


def _reserve(case: InferenceCase, flags: VllmFlags, terms: Terms, free: Estimate) -> Entry:
    """What the cache may not use: beyond the utilization, or beyond a size that was set."""
    size = flags.kv_cache_memory_bytes
    if size is None:
        return Entry("reserve", terms.reserve, f"1 - gpu_memory_utilization, vLLM {case.version}")
    return Entry("reserve", Estimate.exact(max(free.low - size, 0)), "beyond kv_cache_memory_bytes")


def _pool(flags: VllmFlags, ranks: Ledger, cached: int) -> Estimate:
    if ranks.refusal is not None and ranks.refusal.bound_by == "in_use":
        return Estimate.exact(-1)
    left = ranks.free + Estimate.exact(cached)
    size = flags.kv_cache_memory_bytes
    if size is None:
        return left
    if size > left.expected:
        return Estimate.exact(-1)
    return Estimate(size if left.low >= size else -1, size, size)


def _reversed(amount: Estimate) -> Estimate:
    """To be added where ``amount`` was subtracted with its interval turned round."""
    return Estimate(amount.high, amount.expected, amount.low)


def _refusal(
    case: InferenceCase, era: VllmEra, flags: VllmFlags, needed: int, free: Estimate
) -> Refusal | None:
    """A cache size that was set is too small, or more than is left; or, from 0.10 on, the share
    is not free at start."""
    size = flags.kv_cache_memory_bytes
    if size is not None:
        if size > free.expected:
            rest = gib(max(free.expected, 0))
            text = f"kv_cache_memory_bytes sets {gib(size)} and {rest} are left for it"
            return Refusal("kv_cache", text)
        if needed <= size:
            return None
        return Refusal(
            "kv_cache",
            f"kv_cache_memory_bytes sets {gib(size)} and the workload needs {gib(needed)}",
        )
    memory = usable(case.accelerator).expected_bytes
    wanted, left = int(memory * utilization_of(era, flags)), memory - case.in_use_bytes
    if era.other_programs == "subtracted" or left >= wanted:
        return None
    return Refusal(
        "in_use",
        f"{gib(max(left, 0))} are free and gpu_memory_utilization asks for {gib(wanted)}",
    )
