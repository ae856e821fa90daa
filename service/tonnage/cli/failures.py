"""Errors as one sentence and an exit code, never a traceback."""

import contextlib
import sys
from collections.abc import Iterator
from typing import NoReturn

import click

BAD_REQUEST = 2
NOT_AVAILABLE = 3
TIGHT = 10
DOES_NOT_FIT = 11


def fail(message: str, code: int = BAD_REQUEST) -> NoReturn:
    click.echo(f"tonnage: {message}", err=True)
    sys.exit(code)


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Turns the exceptions that a caller can do something about into sentences.

    They are told by name, so that a command does not import what it does not use.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, SystemExit):
        raise
    except Exception as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        fail(*sentence)


_REQUEST_ERRORS = frozenset(
    {
        "CatalogError",
        "EngineError",
        "EvaluationError",
        "InvalidField",
        "MalformedJson",
        "SettingsError",
        "UnknownName",
    }
)
_AWAY_ERRORS = frozenset(
    {"PostgresError", "PortError", "Unavailable", "OperationalError", "InterfaceError"}
)


def _sentence(error: Exception) -> tuple[str, int] | None:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _AWAY_ERRORS:
        return _first_line(error), NOT_AVAILABLE
    if names & _REQUEST_ERRORS:
        pointer = getattr(error, "pointer", "")
        remedy = getattr(error, "remedy", None)
        text = f"{pointer}: {error}" if pointer else str(error)
        return (f"{text} (what would be right: {remedy})" if remedy else text), BAD_REQUEST
    if isinstance(error, OSError):
        return f"{error.filename or ''}: {error.strerror or error}".lstrip(": "), BAD_REQUEST
    return None


def _first_line(error: Exception) -> str:
    if type(error).__name__ in ("OperationalError", "InterfaceError"):
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()
        return f"the database does not answer: {cause[0] if cause else 'no reason given'}"
    return str(error)
