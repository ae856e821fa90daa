"""An evaluation as a plain table for a terminal."""

from collections.abc import Iterable

from .results import Evaluation, Findings, Metric, Outcome, Result

_HEAD = ("", "n", "median", "p90", "bias", "coverage")


def render(evaluation: Evaluation, *, groups: bool = True) -> str:
    lines = [
        f"{evaluation.kind}: {evaluation.rows} rows, {evaluation.scored} scored",
        "",
        *_columns([_HEAD, *_of(evaluation.metrics)]),
    ]
    if evaluation.outcome.n:
        lines += ["", _sentence(evaluation.outcome)]
    for name, group in evaluation.groups.items() if groups else ():
        rows = [(f"{name} ({group.rows} rows)", "", "", "", "", ""), *_of(group.metrics)]
        lines += ["", *_columns(rows)]
        if group.outcome.n:
            lines.append(_sentence(group.outcome))
    if evaluation.skipped:
        lines += ["", "Skipped:"]
        lines += [f"{count:5d}  {reason}" for reason, count in evaluation.skipped.items()]
    return "\n".join(lines) + "\n"


def render_rows(findings: Findings) -> str:
    """Each row's predictions beside its observations, one a line."""
    return "\n".join(line for result in findings.results for line in _row(result)) + "\n"


def _row(result: Result) -> Iterable[str]:
    if result.skipped is not None:
        yield f"{result.id}: skipped, {result.skipped}"
        return
    for found in result.predictions:
        interval = f" [{found.low:.6g}, {found.high:.6g}]" if found.has_interval else ""
        yield (
            f"{result.id}: {found.quantity} {found.predicted:.6g}{interval}, observed "
            f"{found.observed:.6g}, {found.error:+.2%}"
        )
    if result.ending is not None:
        yield (
            f"{result.id}: outcome {result.verdict}, observed {result.outcome}, "
            f"{result.ending.replace('_', ' ')}"
        )
    for quantity, reason in result.left_out.items():
        yield f"{result.id}: {quantity} left out, {reason}"


def _of(metrics: dict[str, Metric]) -> list[tuple[str, ...]]:
    return [
        (
            f"  {name}" + (f" ({found.unit})" if found.unit != "relative" else ""),
            str(found.n),
            f"{found.median_abs_error:.2%}",
            f"{found.p90_abs_error:.2%}",
            f"{found.bias:+.2%}",
            "-" if found.coverage_90 is None else f"{found.coverage_90:.0%}",
        )
        for name, found in metrics.items()
    ]


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    lines = (f"{row[0]:<56}" + "".join(f"{cell:>9}" for cell in row[1:]) for row in rows)
    return [line.rstrip() for line in lines]


def _sentence(outcome: Outcome) -> str:
    return (
        f"  outcomes: {outcome.right} of {outcome.n} right, {outcome.false_fits} false fits, "
        f"{outcome.false_rejections} false rejections; tight: {outcome.tight_failed} failed, "
        f"{outcome.tight_ran} ran"
    )
