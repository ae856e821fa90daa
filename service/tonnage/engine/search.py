"""The largest amount that still passes a test that only ever turns from yes to no."""

from collections.abc import Callable


def largest(passes: Callable[[int], bool], ceiling: int) -> int:
    """The largest n in 1..ceiling that passes; 0 where not even 1 does."""
    if not passes(1):
        return 0
    if passes(ceiling):
        return ceiling
    low, high = 1, ceiling - 1
    while low < high:
        middle = (low + high + 1) // 2
        if passes(middle):
            low = middle
        else:
            high = middle - 1
    return low
