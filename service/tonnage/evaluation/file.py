"""A file of measured cases, held against what the engine says of the same setups."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from tonnage.catalog.release import Release

from .architectures import Known
from .beside import architectures_beside
from .errors import EvaluationError
from .inference import evaluate_inference
from .local import evaluate_local
from .results import Evaluation, Findings, Result
from .rows import KINDS, MODELLED, InferenceRow, LocalRow, Row, kind_of, read_rows
from .scoring import summarise

Progress = Callable[[int, int], None]


def evaluate_file(
    path: Path, release: Release, kind: str | None = None, progress: Progress | None = None
) -> Evaluation:
    """Raises EvaluationError where the file can not be read or its kind is not modelled."""
    return summarise(predict_file(path, release, kind, progress))


def predict_file(
    path: Path, release: Release, kind: str | None = None, progress: Progress | None = None
) -> Findings:
    """The prediction of every row beside its observation, before any is counted."""
    if kind is not None and kind not in KINDS:
        raise EvaluationError(f"{kind!r} is not a kind of cases; one of {', '.join(KINDS)}.")
    rows = read_rows(path)
    kind = kind or kind_of(rows, path.name)
    if kind not in MODELLED:
        raise EvaluationError(f"{kind} is not modelled yet; {' and '.join(MODELLED)} are.")
    known = Known(release, architectures_beside(path))
    results = []
    for number, row in enumerate(rows, start=1):
        results.append(_result(kind, row, number, release, known))
        if progress is not None:
            progress(number, len(rows))
    if all(result.skipped == NOT_IN_FORMAT for result in results):
        raise EvaluationError(f"No row of {path.name} has the fields of {kind}.")
    return Findings(kind=kind, results=tuple(results))


NOT_IN_FORMAT = "the row does not have the fields of its kind"


def _result(kind: str, row: Row, number: int, release: Release, known: Known) -> Result:
    try:
        if kind == "inference_memory":
            return evaluate_inference(msgspec.convert(row, InferenceRow), release, known)
        return evaluate_local(msgspec.convert(row, LocalRow), release, known)
    except msgspec.ValidationError:
        return Result(id=str(row.get("id", f"row {number}")), skipped=NOT_IN_FORMAT)
