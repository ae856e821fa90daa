"""Ledgers and pools of a server that gives what weights and a reserve leave to one cache.

SGLang, TensorRT-LLM and TGI differ in how the reserve comes about; here is what they share.
"""

from typing import NamedTuple

from tonnage.engine.answer import Entry, InferenceFit, Ledger, Note, Refusal, ledger
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.memory.capacity import Pool, PoolRules, pool_capacity
from tonnage.engine.memory.pages import PagedCache, paged_cache
from tonnage.engine.memory.runtimes.shared import (
    accelerators_of_stage,
    gib,
    idle_accelerators,
    usable,
)
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.memory.weights import stages
from tonnage.engine.values import ceil_div


class Stage(NamedTuple):
    """What one rank of a stage holds beside its cache."""

    weights: Estimate
    overhead: Estimate
    activations: Estimate = ZERO
    graphs: Estimate = ZERO
    reserve: Estimate = ZERO
    """Kept free by the runtime's own rule, beside what the other terms take of it."""


class Sources(NamedTuple):
    """What the terms came from, in the runtime's words."""

    activations: str
    overhead: str
    reserve: str


class Server(NamedTuple):
    """A layout of stages, the cache of each and the rules of the runtime."""

    stages: list[Stage]
    caches: list[PagedCache]
    rules: PoolRules
    sources: Sources
    most_pool_bytes: list[int | None]
    """What a flag caps each stage's pool at."""
    most_at_once: tuple[str, int] | None = None
    """The flag that limits the sequences of a replica, and its value."""


def cache_of_stages(
    case: InferenceCase, tensor: int, block_tokens: int, *, windowed: bool
) -> list[PagedCache]:
    return [
        paged_cache(
            case.model,
            tuple(layers.items()),
            tensor,
            case.key_cache.encoding.bits_per_element,
            case.value_cache.encoding.bits_per_element,
            block_tokens,
            windowed=windowed,
        )
        for layers in stages(case.model, case.parallel.pipeline)
    ]


def ledgers_and_pools(case: InferenceCase, server: Server) -> tuple[list[Ledger], list[Pool]]:
    """A ledger and a pool for a rank of each stage."""
    memory = usable(case.accelerator)
    unknown = Estimate(
        memory.expected_bytes - memory.high_bytes, 0, memory.expected_bytes - memory.low_bytes
    )
    ledgers, pools = [], []
    for index, (stage, cache) in enumerate(zip(server.stages, server.caches, strict=True)):
        needed = _needed(case, server, cache)
        entries = [
            Entry("weights", stage.weights, f"weights by module, {case.weights.id}"),
            Entry("kv_cache", Estimate.exact(needed), f"token pool, {case.key_cache.id}"),
            Entry("activations", stage.activations, server.sources.activations),
            Entry("runtime_overhead", stage.overhead, server.sources.overhead),
            Entry("cuda_graphs", stage.graphs, "graphs captured by the server, assumed"),
            Entry("reserve", (stage.reserve + unknown).at_least(0), server.sources.reserve),
            Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
        ]
        most = server.most_pool_bytes[index]
        refusal = None
        if most is not None and needed > most:
            text = f"the cache is capped at {gib(most)} and the workload needs {gib(needed)}"
            refusal = Refusal("kv_cache", text)
        accelerators = accelerators_of_stage(case, index)
        start = cache.block_bytes * _start_blocks(server, cache)
        ranks = ledger(accelerators, memory.expected_bytes, entries, refusal, start)
        left = ranks.free + Estimate.exact(needed)
        if most is not None:
            left = Estimate(min(left.low, most), min(left.expected, most), min(left.high, most))
        ledgers.append(ranks)
        pools.append(Pool(cache, left, left))
    return ledgers, pools


def _needed(case: InferenceCase, server: Server, cache: PagedCache) -> int:
    pools = case.parallel.data * server.rules.groups
    sequences = ceil_div(case.workload.concurrent_sequences, pools)
    batched = server.rules.batched_tokens
    workload = case.workload
    blocks = cache.blocks_of_many(
        workload.context_tokens, batched, sequences, workload.shared_prefix_tokens
    )
    return cache.block_bytes * max(blocks, _start_blocks(server, cache))


def _start_blocks(server: Server, cache: PagedCache) -> int:
    tokens = server.rules.start_tokens
    return cache.blocks(tokens, server.rules.batched_tokens) if tokens else 0


def fit_of(case: InferenceCase, server: Server, assumptions: tuple[Note, ...]) -> InferenceFit:
    ledgers, pools = ledgers_and_pools(case, server)
    return InferenceFit(
        verdict=worst(ledgers),
        bound_by=bound_by(ledgers),
        ledgers=tuple(ledgers),
        capacity=pool_capacity(case, server.rules, pools),
        host_bytes=0,
        assumptions=assumptions,
        warnings=(*idle_accelerators(case), *_queued(case, server)),
    )


def _queued(case: InferenceCase, server: Server) -> tuple[Note, ...]:
    if server.most_at_once is None:
        return ()
    flag, most = server.most_at_once
    waiting = ceil_div(case.workload.concurrent_sequences, case.parallel.data) - most
    if waiting <= 0:
        return ()
    text = (
        f"{case.runtime.name} runs at most {flag} = {most} sequences of a replica at once; the "
        f"other {waiting} wait."
    )
    return (Note(code="sequences_are_queued", text=text, pointer=f"/runtime/flags/{flag}"),)
