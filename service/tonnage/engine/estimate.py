"""An amount that is known within an interval.

``low`` and ``high`` bound nine in ten of the measured cases that the interval was fitted on;
arithmetic that decides exactly has all three equal.
"""

import msgspec


class Estimate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Integers in SI base units (bytes unless the field's name says otherwise)."""

    low: int
    expected: int
    high: int

    @classmethod
    def exact(cls, amount: int) -> "Estimate":
        return cls(amount, amount, amount)

    def __add__(self, other: "Estimate") -> "Estimate":
        return Estimate(
            self.low + other.low, self.expected + other.expected, self.high + other.high
        )

    def __sub__(self, other: "Estimate") -> "Estimate":
        """What is left of ``self``: the least is left where ``other`` is largest."""
        return Estimate(
            self.low - other.high, self.expected - other.expected, self.high - other.low
        )

    def times(self, factor: int) -> "Estimate":
        return Estimate(self.low * factor, self.expected * factor, self.high * factor)

    def spread(self, low: float, high: float) -> "Estimate":
        """The same expectation with relative margins, ``spread(0.9, 1.2)`` being -10 %, +20 %."""
        return Estimate(round(self.low * low), self.expected, round(self.high * high))

    def at_least(self, floor: int) -> "Estimate":
        return Estimate(max(self.low, floor), max(self.expected, floor), max(self.high, floor))


ZERO = Estimate(0, 0, 0)


def total(parts: "list[Estimate] | tuple[Estimate, ...]") -> Estimate:
    low = expected = high = 0
    for part in parts:
        low += part.low
        expected += part.expected
        high += part.high
    return Estimate(low, expected, high)
