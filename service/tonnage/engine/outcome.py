"""What would the runtime do: start, start and perhaps die later, or refuse, and with which words?

Decided on the fullest rank by what is expected, in the order in which a runtime meets its limits:
other programs, loading, states, the profile run, the cache that a start needs, the load asked for.
The words are templates of the runtime's record, read from its source.
"""

from collections.abc import Callable
from typing import cast

from .answer import InferenceFit, Ledger, Outcome, OutcomeCode
from .case import InferenceCase
from .eras import TgiEra
from .flags import TgiFlags
from .values import GIB
from .version import parse_version

TEXTS: dict[OutcomeCode, str] = {
    "starts": "It starts and holds the load.",
    "starts_and_may_run_out": "It starts as expected; within the interval it may not, or may run "
    "out of memory later.",
    "starts_and_queues": "It starts; the load does not fit at once, so requests wait.",
    "memory_in_use": "It does not start: other programs hold memory that it asks for.",
    "weights_do_not_fit": "It runs out of memory while it loads the weights.",
    "states_do_not_fit": "It runs out of memory while it allocates the states of all sequences.",
    "profile_does_not_fit": "It runs out of memory in its first forward pass.",
    "no_room_for_cache": "It does not start: nothing is left for the cache.",
    "cache_too_small": "It does not start: the cache can not hold what a start needs.",
    "cache_does_not_fit": "It runs out of memory while it allocates the cache that a flag sizes.",
}


def outcome_of(case: InferenceCase, fit: InferenceFit, longest_alone: Callable[[], int]) -> Outcome:
    """``longest_alone`` counts the longest sequence that fits with no other beside it."""
    fullest = min(fit.ledgers, key=lambda ledger: ledger.free.expected)
    refused = next((ledger for ledger in fit.ledgers if ledger.refusal is not None), fullest)
    code = _code(refused, fit)
    return Outcome(code, TEXTS[code], _message(case, code, refused, fit, longest_alone))


def _code(ledger: Ledger, fit: InferenceFit) -> OutcomeCode:
    if ledger.refusal is not None and ledger.refusal.bound_by == "in_use":
        return "memory_in_use"
    held = {entry.name: entry.bytes.expected for entry in ledger.components}
    physical = ledger.usable - held.get("in_use", 0)
    weights, states = held.get("weights", 0), held.get("state_cache", 0)
    if weights > physical:
        return "weights_do_not_fit"
    if states and weights + states > physical:
        return "states_do_not_fit"
    if weights + states + held.get("activations", 0) > physical:
        return "profile_does_not_fit"
    cache = held.get("kv_cache", 0)
    left = ledger.free.expected + cache
    if ledger.refusal is not None:
        sized = fit.capacity.kv_cache_bytes.expected
        if sized > left:
            return "cache_does_not_fit"
        left = sized
    if left < 0 or (ledger.start_bytes and left <= 0):
        return "no_room_for_cache"
    if left < ledger.start_bytes:
        return "cache_too_small"
    if fit.verdict == "does_not_fit":
        return "starts_and_queues"
    return "starts" if fit.verdict == "fits" else "starts_and_may_run_out"


def _message(
    case: InferenceCase,
    code: OutcomeCode,
    ledger: Ledger,
    fit: InferenceFit,
    longest_alone: Callable[[], int],
) -> str | None:
    """The runtime's own words, where its record has them for this version."""
    version = parse_version(case.version)
    found = None
    for message in case.runtime.messages:
        if message.code == code and parse_version(message.since) <= version:
            found = message.text
    if found is None:
        return None
    left = ledger.free.expected + ledger.amount("kv_cache").expected
    if ledger.refusal is not None:
        left = min(left, fit.capacity.kv_cache_bytes.expected)
    if "{longest}" in found:
        found = found.replace("{longest}", str(longest_alone()))
    return (
        found.replace("{needed}", f"{ledger.start_bytes / GIB:.2f}")
        .replace("{available}", f"{max(left, 0) / GIB:.2f}")
        .replace("{length}", str(_length(case)))
        .replace("{tokens}", str(fit.capacity.kv_tokens.expected))
    )


def _length(case: InferenceCase) -> int:
    """The tokens that a start is tried with."""
    if isinstance(case.flags, TgiFlags):
        era = cast(TgiEra, case.era)
        return case.flags.max_batch_prefill_tokens or era.max_batch_prefill_tokens
    length: int | None = getattr(case.flags, "max_model_len", None)
    return length or case.workload.context_tokens
