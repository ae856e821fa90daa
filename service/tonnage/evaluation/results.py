"""What an evaluation finds: of each row, and over all of them."""

from typing import Literal

import msgspec

Ending = Literal["right", "false_fits", "false_rejections", "tight_failed", "tight_ran"]


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity of one row; ``low`` and ``high`` are equal where the engine claims exactness."""

    quantity: str
    predicted: float
    observed: float
    low: float
    high: float
    scale: float | None = None
    """What the error is a fraction of; the observed value where left out."""
    rounding: float = 0.0
    """How far the printed observation may be from the true one."""

    @property
    def error(self) -> float:
        """Signed, positive where too much was predicted."""
        return (self.predicted - self.observed) / abs(self.scale or self.observed)

    @property
    def has_interval(self) -> bool:
        return self.low < self.high

    @property
    def covered(self) -> bool:
        return self.low - self.rounding <= self.observed <= self.high + self.rounding


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What was predicted for one row. ``left_out`` says of a quantity why there is nothing."""

    id: str
    groups: tuple[str, ...] = ()
    predictions: tuple[Prediction, ...] = ()
    verdict: str | None = None
    outcome: str | None = None
    ending: Ending | None = None
    left_out: dict[str, str] = {}
    skipped: str | None = None


class Scorer:
    """Collects the predictions of one row, and why others are missing."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.left_out: dict[str, str] = {}

    def add(
        self,
        quantity: str,
        observed: float | None,
        predicted: tuple[float, float, float],
        scale: float | None = None,
        rounding: float = 0.0,
    ) -> None:
        if observed is None:
            return
        if scale is None and observed == 0:
            self.left_out[quantity] = "zero was observed"
            return
        low, expected, high = predicted
        self.predictions.append(
            Prediction(
                quantity=quantity,
                predicted=expected,
                observed=observed,
                low=low,
                high=high,
                scale=scale,
                rounding=rounding,
            )
        )


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """Errors are (predicted - observed) / observed unless ``unit`` names another base.

    ``bias`` is the median of the signed errors; ``coverage_90`` the share of observations within
    the predicted interval, over the ``n`` that have one, and null where none has.
    """

    n: int
    median_abs_error: float
    p90_abs_error: float
    bias: float
    coverage_90: float | None
    unit: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How verdicts compare with what happened; ``tight`` is right either way and counted apart."""

    n: int
    right: int
    false_fits: int
    false_rejections: int
    tight_failed: int
    tight_ran: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    rows: int
    metrics: dict[str, Metric]
    outcome: Outcome


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    rows: int
    scored: int
    skipped: dict[str, int]
    metrics: dict[str, Metric]
    outcome: Outcome
    groups: dict[str, Group]


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """Every row of a file, in its order."""

    kind: str
    results: tuple[Result, ...]
