"""Names as people type them: which record is meant, and what was meant when none is."""

import re
from collections.abc import Iterable

from rapidfuzz import fuzz, process

_SEPARATORS = re.compile(r"[\s\-_.,/:()@+]+")


def normal(name: str) -> str:
    """A name without case and punctuation: ``A100-80GB`` and ``a100 80gb`` are one."""
    return _SEPARATORS.sub("", name).casefold()


def words(text: str) -> tuple[str, ...]:
    return tuple(part for part in _SEPARATORS.split(text.casefold()) if part)


def nearest(name: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The known names that ``name`` was most likely meant to be, best first; none if all are far."""
    found = process.extract(
        name[:200], known, scorer=fuzz.WRatio, processor=normal, limit=most, score_cutoff=72
    )
    return tuple(match for match, _score, _index in found)


def did_you_mean(suggestions: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
