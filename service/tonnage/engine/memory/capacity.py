"""How many tokens, sequences and how long a context fit: in a pool of cache pages, or by trying?"""

from collections.abc import Callable
from typing import NamedTuple

from tonnage.engine.answer import Capacity, Ledger
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import Estimate
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.verdict import least_free, left_for_cache
from tonnage.engine.search import largest
from tonnage.engine.values import ceil_div

MOST_SEQUENCES = 4096
"""How far sequences are searched, or counted where nothing is cached and no limit is set."""


class Pool(NamedTuple):
    """The cache of one rank of a stage, and the memory that is left for it.

    ``printed`` is what the runtime says it found: graphs that outgrow their margin come later.
    """

    cache: PagedCache
    memory: Estimate
    printed: Estimate


class PoolRules(NamedTuple):
    """How a runtime uses its pool."""

    longest_tokens: int
    """No sequence is longer."""
    most_sequences: int
    """What is held at once where nothing is cached."""
    batched_tokens: int = 0
    """Tokens that a windowed layer keeps beside its window."""
    start_tokens: int = 0
    """A start needs room for a sequence of this length; 0 where it does not."""
    fixed_length: bool = False
    """Whether ``longest_tokens`` was set: then no room for it is no start."""
    hybrids_by_concurrency: bool = False
    """Whether the token count of hybrids is concurrency x length."""
    groups: int = 1
    """Pools beside each other inside one replica, as of data-parallel attention."""


class _Held(NamedTuple):
    tokens: int
    sequences: int
    longest: int


class _Needs(NamedTuple):
    """What a stage's cache is asked to hold, in blocks of one rank."""

    cache: PagedCache
    of_context: int
    of_start: int
    shared: int
    """Of these blocks, those of a prefix that all sequences have in common."""


def pool_capacity(case: InferenceCase, rules: PoolRules, pools: list[Pool]) -> Capacity:
    """Of the whole layout: the smallest stage's pool, times the replicas."""
    context, batched = case.workload.context_tokens, rules.batched_tokens
    needs = [
        _Needs(
            pool.cache,
            pool.cache.blocks(context, batched),
            pool.cache.blocks(rules.start_tokens, batched) if rules.start_tokens else 0,
            pool.cache.shared_blocks(min(case.workload.shared_prefix_tokens, context - 1)),
        )
        for pool in pools
    ]
    memory = [pool.memory for pool in pools]
    printed = [pool.printed for pool in pools]
    low = _least(case, rules, needs, [amount.low for amount in memory])
    expected = _least(case, rules, needs, [amount.expected for amount in memory])
    high = _least(case, rules, needs, [amount.high for amount in memory])
    replicas = case.parallel.data * rules.groups
    tokens = Estimate(low.tokens, expected.tokens, high.tokens)
    if printed != memory:
        tokens = Estimate(
            _least(case, rules, needs, [amount.low for amount in printed]).tokens,
            _least(case, rules, needs, [amount.expected for amount in printed]).tokens,
            _least(case, rules, needs, [amount.high for amount in printed]).tokens,
        )
    return Capacity(
        kv_tokens=tokens.times(replicas),
        sequences_at_context=Estimate(low.sequences, expected.sequences, high.sequences).times(
            replicas
        ),
        longest_context=Estimate(low.longest, expected.longest, high.longest),
        kv_bytes_per_token=max(pool.cache.token_bytes for pool in pools),
        kv_cache_bytes=min((pool.printed for pool in pools), key=lambda left: left.expected),
    )


def _least(case: InferenceCase, rules: PoolRules, needs: list[_Needs], memory: list[int]) -> _Held:
    stages = [_held(case, rules, need, amount) for need, amount in zip(needs, memory, strict=True)]
    if len(stages) == 1:
        return stages[0]
    return _Held(
        min(held.tokens for held in stages),
        min(held.sequences for held in stages),
        min(held.longest for held in stages),
    )


def _held(case: InferenceCase, rules: PoolRules, need: _Needs, memory: int) -> _Held:
    cache, limit = need.cache, rules.longest_tokens
    if not cache.block_bytes:
        return _Held(0, rules.most_sequences, limit) if memory >= 0 else _Held(0, 0, 0)
    blocks = max(memory, 0) // cache.block_bytes
    groups = cache.group_count
    if groups > 1 and rules.hybrids_by_concurrency:
        tokens = blocks * rules.start_tokens // need.of_start
    else:
        tokens = blocks // groups * cache.block_tokens
    starts = blocks >= need.of_start
    sequences = ceil_div(case.workload.concurrent_sequences, case.parallel.data * rules.groups)
    longest = _longest(case, rules, need, blocks, sequences)
    held = max(blocks - need.shared, 0) // (need.of_context - need.shared) if starts else 0
    return _Held(tokens, held, longest if starts or not rules.fixed_length else 0)


def _longest(
    case: InferenceCase, rules: PoolRules, need: _Needs, blocks: int, sequences: int
) -> int:
    """The longest of so many sequences that the blocks hold, a common prefix being kept once."""
    cache, prefix, limit = need.cache, case.workload.shared_prefix_tokens, rules.longest_tokens
    each = (blocks + (sequences - 1) * need.shared) // sequences
    found = cache.longest(each, rules.batched_tokens, limit)
    if found > prefix:
        return found
    return largest(
        lambda n: cache.blocks_of_many(n, rules.batched_tokens, sequences, prefix) <= blocks,
        min(prefix, limit),
    )


def searched_capacity(
    case: InferenceCase,
    ledgers: Callable[[int, int], list[Ledger]],
    kv_bytes_per_token: int,
    layers_on_accelerator: int | None = None,
) -> Capacity:
    """Of a runtime that allocates for a context and a number of sequences.

    ``ledgers`` gives every device's for a context length and a number of sequences; what fits
    leaves something free on each of them.
    """
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    longest = _most(lambda n: least_free(ledgers(n, sequences)), case.model.longest_context_tokens)
    return Capacity(
        kv_tokens=longest.times(sequences),
        kv_cache_bytes=left_for_cache(ledgers(context, sequences)),
        sequences_at_context=_most(lambda n: least_free(ledgers(context, n)), MOST_SEQUENCES),
        longest_context=longest,
        kv_bytes_per_token=kv_bytes_per_token,
        layers_on_accelerator=layers_on_accelerator,
    )


def _most(free: Callable[[int], Estimate], ceiling: int) -> Estimate:
    """The most that leaves something free, in each of the three readings."""
    return Estimate(
        largest(lambda n: free(n).low >= 0, ceiling),
        largest(lambda n: free(n).expected >= 0, ceiling),
        largest(lambda n: free(n).high >= 0, ceiling),
    )
