"""How many tokens, sequences and how long a context does what vLLM leaves for its cache hold?"""

from typing import NamedTuple, cast

from tonnage.engine.answer import Capacity
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.vllm_limits import Limits
from tonnage.engine.runtime import VllmEra
from tonnage.engine.values import ceil_div


class Pool(NamedTuple):
    """The cache of one rank of a stage, and the memory that is left for it.

    ``printed`` is what vLLM says it found: graphs that outgrow their margin come later.
    """

    cache: PagedCache
    memory: Estimate
    printed: Estimate


class _Held(NamedTuple):
    tokens: int
    sequences: int
    longest: int


class _Needs(NamedTuple):
    """What a stage's cache is asked to hold, in blocks of one rank."""

    cache: PagedCache
    of_context: int
    of_longest: int


def capacity(case: InferenceCase, limits: Limits, pools: list[Pool]) -> Capacity:
    """Of the whole layout: the smallest stage's pool, times the replicas."""
    context, batched = case.workload.context_tokens, limits.batched_tokens
    needs = [
        _Needs(cache, cache.blocks(context, batched), cache.blocks(limits.model_tokens, batched))
        for cache, _, _ in pools
    ]
    memory = [pool.memory for pool in pools]
    low = _least(case, limits, needs, [amount.low for amount in memory])
    expected = _least(case, limits, needs, [amount.expected for amount in memory])
    high = _least(case, limits, needs, [amount.high for amount in memory])
    replicas = case.parallel.data
    return Capacity(
        kv_tokens=Estimate(low.tokens, expected.tokens, high.tokens).times(replicas),
        sequences_at_context=Estimate(low.sequences, expected.sequences, high.sequences).times(
            replicas
        ),
        longest_context=Estimate(low.longest, expected.longest, high.longest),
        kv_bytes_per_token=max(pool.cache.token_bytes for pool in pools),
    )


def _least(case: InferenceCase, limits: Limits, needs: list[_Needs], memory: list[int]) -> _Held:
    stages = [_held(case, limits, need, amount) for need, amount in zip(needs, memory, strict=True)]
    if len(stages) == 1:
        return stages[0]
    return _Held(
        min(held.tokens for held in stages),
        min(held.sequences for held in stages),
        min(held.longest for held in stages),
    )


def _held(case: InferenceCase, limits: Limits, need: _Needs, memory: int) -> _Held:
    era, flags, cache = cast(VllmEra, case.era), cast(VllmFlags, case.flags), need.cache
    limit = flags.max_model_len or case.model.longest_context_tokens
    if not cache.block_bytes:
        return _Held(0, limits.sequences, limit) if memory >= 0 else _Held(0, 0, 0)
    blocks = max(memory, 0) // cache.block_bytes
    groups = cache.group_count
    if groups > 1 and era.token_count_of_hybrids == "by_concurrency":
        tokens = blocks * limits.model_tokens // need.of_longest
    else:
        tokens = blocks // groups * cache.block_tokens
    starts = blocks >= need.of_longest
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    longest = cache.longest(blocks // sequences, limits.batched_tokens, limit)
    held = blocks // need.of_context if starts else 0
    return _Held(tokens, held, longest if starts or flags.max_model_len is None else 0)
