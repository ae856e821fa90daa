"""How many tokens, sequences and how long a context does what vLLM leaves for its cache hold?"""

from typing import NamedTuple, cast

from tonnage.engine.answer import Capacity
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.vllm_terms import Limits
from tonnage.engine.runtime import VllmEra
from tonnage.engine.values import ceil_div


class Pool(NamedTuple):
    """The cache of one rank of a stage, and the memory that is left for it."""

    cache: PagedCache
    memory: Estimate


class _Held(NamedTuple):
    tokens: int
    sequences: int
    longest: int


def capacity(case: InferenceCase, limits: Limits, pools: list[Pool]) -> Capacity:
    """Of the whole layout: the smallest stage's pool, times the replicas."""
    replicas = case.parallel.data
    low = _least([_held(case, limits, pool.cache, pool.memory.low) for pool in pools])
    expected = _least([_held(case, limits, pool.cache, pool.memory.expected) for pool in pools])
    high = _least([_held(case, limits, pool.cache, pool.memory.high) for pool in pools])
    return Capacity(
        kv_tokens=Estimate(low.tokens, expected.tokens, high.tokens).times(replicas),
        sequences_at_context=Estimate(low.sequences, expected.sequences, high.sequences).times(
            replicas
        ),
        longest_context=Estimate(low.longest, expected.longest, high.longest),
        kv_bytes_per_token=max(pool.cache.token_bytes for pool in pools),
    )


def _held(case: InferenceCase, limits: Limits, cache: PagedCache, memory: int) -> _Held:
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    limit = flags.max_model_len or case.model.longest_context_tokens
    if not cache.block_bytes:
        return _Held(0, limits.sequences, limit) if memory >= 0 else _Held(0, 0, 0)
    blocks = max(memory, 0) // cache.block_bytes
    batched = limits.batched_tokens
    of_longest = cache.blocks(limits.model_tokens, batched)
    if cache.group_count > 1 and era.token_count_of_hybrids == "by_concurrency":
        tokens = blocks * limits.model_tokens // of_longest
    else:
        tokens = blocks // cache.group_count * cache.block_tokens
    starts = blocks >= of_longest
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    longest = cache.longest(blocks // sequences, batched, limit)
    held = blocks // cache.blocks(case.workload.context_tokens, batched) if starts else 0
    return _Held(tokens, held, longest if starts or flags.max_model_len is None else 0)


def _least(stages: list[_Held]) -> _Held:
    return _Held(
        min(held.tokens for held in stages),
        min(held.sequences for held in stages),
        min(held.longest for held in stages),
    )
