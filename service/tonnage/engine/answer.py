"""The answer to a fit question: a ledger that adds up, and what can be made of it."""

from typing import Literal

import msgspec

from .estimate import ZERO, Estimate, total

Verdict = Literal["fits", "tight", "does_not_fit"]
Component = Literal[
    "weights",
    "kv_cache",
    "state_cache",
    "activations",
    "runtime_overhead",
    "cuda_graphs",
    "reserve",
    "in_use",
]
OutcomeCode = Literal[
    "starts",
    "starts_and_may_run_out",
    "starts_and_queues",
    "memory_in_use",
    "weights_do_not_fit",
    "states_do_not_fit",
    "profile_does_not_fit",
    "no_room_for_cache",
    "cache_too_small",
    "cache_does_not_fit",
]
Support = Literal["yes", "no", "unknown", "limited"]


class Entry(msgspec.Struct, frozen=True):
    """``source`` names the formula or the measurements that the amount came from."""

    name: Component
    bytes: Estimate
    source: str


class Refusal(msgspec.Struct, frozen=True):
    """Why a runtime does not start, whatever is free."""

    bound_by: Component
    text: str


class Ledger(msgspec.Struct, frozen=True):
    """Where the memory of each listed accelerator goes: usable = the components + free."""

    accelerators: tuple[int, ...]
    usable: int
    components: tuple[Entry, ...]
    free: Estimate
    start_bytes: int = 0
    """Of cache that the runtime needs room for to start at all; more work only waits."""
    refusal: Refusal | None = None

    @property
    def verdict(self) -> Verdict:
        if self.refusal is not None:
            return "does_not_fit"
        if self.free.low >= 0:
            return "fits"
        return "tight" if self.free.expected >= 0 else "does_not_fit"

    def amount(self, name: Component) -> Estimate:
        return total([entry.bytes for entry in self.components if entry.name == name])


def ledger(
    accelerators: tuple[int, ...],
    usable: int,
    entries: list[Entry],
    refusal: Refusal | None = None,
    start_bytes: int | None = None,
) -> Ledger:
    """A ledger of the entries that hold anything; what they leave is free (or missing).

    Without ``start_bytes`` a start allocates the whole cache that was asked for.
    """
    held = tuple(entry for entry in entries if entry.bytes != ZERO)
    free = Estimate.exact(usable) - total([entry.bytes for entry in held])
    if start_bytes is None:
        start_bytes = sum(e.bytes.expected for e in held if e.name == "kv_cache")
    return Ledger(accelerators, usable, held, free, start_bytes, refusal)


class Capacity(msgspec.Struct, frozen=True, kw_only=True):
    """What the layout can hold beside its weights.

    ``kv_tokens`` is the figure that the runtime prints; a hybrid model's is not a byte count, so
    compare ``sequences_at_context``.
    """

    kv_tokens: Estimate
    sequences_at_context: Estimate
    longest_context: Estimate
    """In tokens, at the concurrency asked for; 0 when not one token fits."""
    kv_cache_bytes: Estimate
    """What is left for the cache on the fullest accelerator, as the runtime would print it."""
    kv_bytes_per_token: int
    """Of one sequence's next token on one accelerator, deep into its context."""
    layers_on_accelerator: int | None = None
    """For llama.cpp: the most layers that fit at the context asked for."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Something assumed or warned of; ``code`` is stable, ``text`` is for people."""

    code: str
    text: str
    pointer: str | None = None


class Outcome(msgspec.Struct, frozen=True):
    """What the runtime would do; ``message`` is what it would print, where that is known."""

    code: OutcomeCode
    text: str
    message: str | None = None


class InferenceFit(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    bound_by: Component
    ledgers: tuple[Ledger, ...]
    capacity: Capacity
    host_bytes: int
    assumptions: tuple[Note, ...] = ()
    warnings: tuple[Note, ...] = ()
    outcome: Outcome | None = None
