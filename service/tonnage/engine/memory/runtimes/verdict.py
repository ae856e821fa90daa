"""What do the ledgers of all ranks say together?"""

from tonnage.engine.answer import Component, Ledger, Verdict
from tonnage.engine.estimate import Estimate

_WORST_FIRST: tuple[Verdict, ...] = ("does_not_fit", "tight", "fits")


def worst(ledgers: list[Ledger]) -> Verdict:
    found = {ranks.verdict for ranks in ledgers}
    return next(verdict for verdict in _WORST_FIRST if verdict in found)


def bound_by(ledgers: list[Ledger]) -> Component:
    """The component to shrink first, on the rank with the least left.

    Without the cache: if weights alone are more than half of what does not fit, weights; otherwise
    the largest of the rest. With room for some cache, the cache binds: it is what more work grows.
    """
    refused = [ranks.refusal for ranks in ledgers if ranks.refusal is not None]
    if refused:
        return refused[0].bound_by
    tightest = min(ledgers, key=lambda ranks: ranks.free.expected)
    cache = tightest.amount("kv_cache").expected
    if tightest.free.expected + cache >= 0:
        return "kv_cache"
    fixed = [entry for entry in tightest.components if entry.name not in ("kv_cache", "reserve")]
    return max(fixed, key=lambda entry: entry.bytes.expected).name


def left_for_cache(ledgers: list[Ledger]) -> Estimate:
    """What the fullest device has for a cache."""
    fullest = min(ledgers, key=lambda ranks: ranks.free.expected)
    return fullest.free + fullest.amount("kv_cache")


def least_free(ledgers: list[Ledger]) -> Estimate:
    """What is left on the fullest device, in each of the three readings."""
    frees = [ranks.free for ranks in ledgers]
    return Estimate(
        min(free.low for free in frees),
        min(free.expected for free in frees),
        min(free.high for free in frees),
    )
