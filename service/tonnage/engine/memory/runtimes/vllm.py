"""What does vLLM account for on each rank, and how many tokens does its KV cache hold?

``available KV = utilization x total - weights - non-torch - activation peak [- CUDA graphs]``, per
rank; the least over the ranks decides. Eras of the runtime record say which terms a version counts.
Left out: LoRA slots, draft models, vision profiling runs, padding by repacked kernels.
"""

from typing import cast

from tonnage.engine.answer import Capacity, Entry, InferenceFit, Ledger, Note, ledger
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.shared import accelerators_of_stage, check_layout, usable
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.memory.runtimes.vllm_terms import (
    Limits,
    batch_limits,
    cache_of_stage,
    terms_of_rank,
    weights_of_stages,
)
from tonnage.engine.runtime import VllmEra
from tonnage.engine.values import ceil_div


def estimate(case: InferenceCase) -> InferenceFit:
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    limits = batch_limits(case, era, flags)
    ledgers, pools = _stages(case, limits)
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    return InferenceFit(
        verdict=worst(ledgers),
        bound_by=bound_by(ledgers),
        ledgers=tuple(ledgers),
        capacity=_capacity(case, era, limits, sequences, pools),
        host_bytes=0,
        assumptions=_assumptions(case, era, flags, limits),
        warnings=_warnings(case, limits, pools),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of a rank of each pipeline stage."""
    limits = batch_limits(case, cast(VllmEra, case.era), cast(VllmFlags, case.flags))
    return _stages(case, limits)[0]


def _stages(
    case: InferenceCase, limits: Limits
) -> tuple[list[Ledger], list[tuple[PagedCache, Estimate]]]:
    """The ledgers, and beside each the cache layout and the memory that is left for it."""
    check_layout(case)
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    total = usable(case.accelerator).expected_bytes
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    terms = terms_of_rank(case, era, flags, limits)
    ledgers: list[Ledger] = []
    pools: list[tuple[PagedCache, Estimate]] = []
    for index, weights in enumerate(weights_of_stages(case)):
        cache = cache_of_stage(case, era, flags, index)
        needed = cache.block_bytes * max(
            sequences * cache.blocks(case.workload.context_tokens, limits.batched_tokens),
            cache.blocks(limits.model_tokens, limits.batched_tokens),
        )
        entries = [
            Entry("weights", Estimate.exact(weights), f"weights by module, {case.weights.id}"),
            Entry("kv_cache", Estimate.exact(needed), f"paged cache, {case.key_cache.id}"),
            Entry("activations", terms.activations, "largest of sampler and forward, calibrated"),
            Entry("runtime_overhead", terms.overhead, "outside the allocator, calibrated"),
            Entry("cuda_graphs", terms.graphs, "graphs captured by vLLM, calibrated"),
            Entry("reserve", terms.reserve, f"1 - gpu_memory_utilization, vLLM {case.version}"),
            Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
        ]
        ranks = ledger(accelerators_of_stage(case, index), total, entries)
        ledgers.append(ranks)
        pools.append((cache, ranks.free + Estimate.exact(needed)))
    return ledgers, pools


def _capacity(
    case: InferenceCase,
    era: VllmEra,
    limits: Limits,
    sequences: int,
    pools: list[tuple[PagedCache, Estimate]],
) -> Capacity:
    """Capacity of the whole layout: the smallest stage's pool, times the replicas."""
    replicas = case.parallel.data
    found = [_of_pool(case, era, limits, sequences, cache, pool) for cache, pool in pools]
    tokens = [part[0] for part in found]
    held = [part[1] for part in found]
    longest = [part[2] for part in found]
    return Capacity(
        kv_tokens=_least(tokens).times(replicas),
        sequences_at_context=_least(held).times(replicas),
        longest_context=_least(longest),
        kv_bytes_per_token=max(cache.token_bytes for cache, _ in pools),
    )


def _of_pool(
    case: InferenceCase,
    era: VllmEra,
    limits: Limits,
    sequences: int,
    cache: PagedCache,
    pool: Estimate,
) -> tuple[Estimate, Estimate, Estimate]:
    batched, context = limits.batched_tokens, case.workload.context_tokens
    per_sequence = cache.blocks(context, batched)
    per_longest = cache.blocks(limits.model_tokens, batched)

    def of(amount: int) -> tuple[int, int, int]:
        blocks = max(amount, 0) // cache.block_bytes
        if cache.group_count > 1 and era.token_count_of_hybrids == "by_concurrency":
            tokens = blocks * limits.model_tokens // per_longest
        else:
            tokens = blocks // cache.group_count * cache.block_tokens
        longest = cache.longest(blocks // sequences, batched, case.model.longest_context_tokens)
        return tokens, blocks // per_sequence, longest

    low, expected, high = of(pool.low), of(pool.expected), of(pool.high)
    tokens, held, longest = (Estimate(low[i], expected[i], high[i]) for i in range(3))
    return tokens, held, longest


def _least(parts: list[Estimate]) -> Estimate:
    return Estimate(
        min(part.low for part in parts),
        min(part.expected for part in parts),
        min(part.high for part in parts),
    )


def _assumptions(
    case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits
) -> tuple[Note, ...]:
    notes = []
    if flags.max_model_len is None:
        notes.append(
            Note(
                code="max_model_len_is_context",
                text=f"The server is started with --max-model-len {limits.model_tokens}; vLLM's "
                f"own default would be {case.model.longest_context_tokens}.",
                pointer="/runtime/flags/max_model_len",
            )
        )
    if flags.gpu_memory_utilization is None and flags.kv_cache_memory_bytes is None:
        notes.append(
            Note(
                code="default_gpu_memory_utilization",
                text=f"gpu_memory_utilization {era.gpu_memory_utilization}, the default of vLLM "
                f"{case.version}.",
                pointer="/runtime/flags/gpu_memory_utilization",
            )
        )
    if flags.max_num_seqs is None or flags.max_num_batched_tokens is None:
        notes.append(
            Note(
                code="default_batch_limits",
                text=f"max_num_batched_tokens {limits.batched_tokens} and max_num_seqs "
                f"{limits.sequences}, vLLM {case.version}'s defaults here where not set.",
                pointer="/runtime/flags/max_num_batched_tokens",
            )
        )
    return tuple(notes)


def _warnings(
    case: InferenceCase, limits: Limits, pools: list[tuple[PagedCache, Estimate]]
) -> tuple[Note, ...]:
    notes = []
    per_replica = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    if per_replica > limits.sequences:
        notes.append(
            Note(
                code="sequences_are_queued",
                text=f"vLLM runs at most max_num_seqs = {limits.sequences} sequences of a replica "
                f"at once; the other {per_replica - limits.sequences} wait.",
                pointer="/runtime/flags/max_num_seqs",
            )
        )
    longest = case.model.longest_context_tokens
    if limits.model_tokens < longest:
        short = [
            cache
            for cache, pool in pools
            if cache.blocks(longest, limits.batched_tokens) * cache.block_bytes > pool.expected
        ]
        if short:
            notes.append(
                Note(
                    code="default_context_does_not_start",
                    text=f"Without --max-model-len vLLM would ask for room for {longest} tokens "
                    "and not start here.",
                    pointer="/runtime/flags/max_model_len",
                )
            )
    return tuple(notes)
