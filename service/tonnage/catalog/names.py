"""Names as people type them: which record is meant, and what was meant when none is."""

import re
from collections.abc import Iterable
from typing import Any

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Levenshtein

_SEPARATORS = re.compile(r"[\s\-_,/:()@+]+|(?<!\d)\.|\.(?!\d)")
"""A dot between digits is kept: opt-1.3b is not opt-13b."""


SHORT_NAME = 6
_edits: Any = Levenshtein.distance


def normal(name: str) -> str:
    """A name without case and punctuation: ``A100-80GB`` and ``a100 80gb`` are one."""
    return _SEPARATORS.sub("", name).casefold()


def words(text: str) -> tuple[str, ...]:
    return tuple(part for part in _SEPARATORS.split(text.casefold()) if part)


def is_run_of(wanted: str, name: str) -> bool:
    """Whether consecutive words of a name spell it: ``h100`` in ``H100 NVL``, not in ``GH100``."""
    parts = words(name)
    return any(
        "".join(parts[start:end]) == wanted
        for start in range(len(parts))
        for end in range(start + 1, len(parts) + 1)
    )


def nearest(name: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """The known names that ``name`` was most likely meant to be, best first; none if all far."""
    found = process.extract(
        name[:200], known, scorer=fuzz.WRatio, processor=normal, limit=most, score_cutoff=72
    )
    if not found:
        found = _one_slip_away(name, known)
    return tuple(match for match, _score, _index in found)[:most]


def _one_slip_away(name: str, known: Iterable[str]) -> list[tuple[str, float, int]]:
    """Short names (``L5``) share too little with any other to be alike by proportion."""
    if len(normal(name)) > SHORT_NAME:
        return []
    return [
        (match, score, index)
        for match, score, index in process.extract(
            name, known, scorer=_edits, processor=normal, score_cutoff=1
        )
    ]


def did_you_mean(suggestions: tuple[str, ...]) -> str:
    return f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
