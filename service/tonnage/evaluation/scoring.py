"""From the predictions of single rows to medians, percentiles and confusion counts."""

import re
from collections import Counter
from collections.abc import Iterable
from statistics import median

from .results import Ending, Evaluation, Findings, Group, Metric, Outcome, Prediction, Result

QUANTITIES: dict[str, tuple[str, ...]] = {
    "inference_memory": (
        "weights_gib_per_gpu",
        "kv_tokens_given_memory",
        "available_kv_share_of_device",
        "max_concurrency",
    ),
    "local_memory": ("weights_mib", "kv_mib", "compute_mib", "total_mib"),
}
UNITS = {"available_kv_share_of_device": "share of device memory"}
RELATIVE = "relative"

_NUMBERS = re.compile(r"(\d+)")


def percentile(values: list[float], share: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def ending(verdict: str, ran: bool) -> Ending:
    if verdict == "tight":
        return "tight_ran" if ran else "tight_failed"
    if (verdict == "fits") == ran:
        return "right"
    return "false_rejections" if ran else "false_fits"


def summarise(findings: Findings) -> Evaluation:
    results = findings.results
    scored = [result for result in results if result.skipped is None]
    reasons = Counter(result.skipped for result in results if result.skipped is not None)
    names = dict.fromkeys(name for result in scored for name in result.groups)
    return Evaluation(
        kind=findings.kind,
        rows=len(results),
        scored=len(scored),
        skipped=dict(reasons.most_common()),
        metrics=metrics(findings.kind, scored),
        outcome=outcome(scored),
        groups={
            name: _group(findings.kind, [r for r in scored if name in r.groups])
            for name in sorted(names, key=_natural)
        },
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """``since 0.9.0`` before ``since 0.20.0``."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(name)]


def _group(kind: str, results: list[Result]) -> Group:
    return Group(rows=len(results), metrics=metrics(kind, results), outcome=outcome(results))


def metrics(kind: str, results: Iterable[Result]) -> dict[str, Metric]:
    """Every quantity of the kind that any of the results has."""
    by_quantity: dict[str, list[Prediction]] = {name: [] for name in QUANTITIES[kind]}
    for result in results:
        for prediction in result.predictions:
            by_quantity[prediction.quantity].append(prediction)
    return {name: _metric(name, found) for name, found in by_quantity.items() if found}


def _metric(name: str, found: list[Prediction]) -> Metric:
    errors = [prediction.error for prediction in found]
    sizes = [abs(error) for error in errors]
    bounded = [prediction.covered for prediction in found if prediction.has_interval]
    return Metric(
        n=len(found),
        median_abs_error=round(median(sizes), 6),
        p90_abs_error=round(percentile(sizes, 0.9), 6),
        bias=round(median(errors), 6),
        coverage_90=round(sum(bounded) / len(bounded), 4) if bounded else None,
        unit=UNITS.get(name, RELATIVE),
    )


def outcome(results: Iterable[Result]) -> Outcome:
    counts = Counter(result.ending for result in results if result.ending is not None)
    return Outcome(
        n=sum(counts.values()),
        right=counts["right"],
        false_fits=counts["false_fits"],
        false_rejections=counts["false_rejections"],
        tight_failed=counts["tight_failed"],
        tight_ran=counts["tight_ran"],
    )
