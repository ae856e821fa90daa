"""The engine held against measured cases: how far off is it, where, and on how many rows?"""

from .errors import EvaluationError
from .file import evaluate_file, predict_file
from .results import Evaluation, Findings, Result
from .scoring import summarise
from .table import render, render_rows

__all__ = [
    "Evaluation",
    "EvaluationError",
    "Findings",
    "Result",
    "evaluate_file",
    "predict_file",
    "render",
    "render_rows",
    "summarise",
]
