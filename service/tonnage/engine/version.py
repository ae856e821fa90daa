"""Which of two releases of a runtime is the newer one."""

import re
from functools import lru_cache

from .errors import Contradiction

_NUMBERS = re.compile(r"\d+")
_READABLE = re.compile(r"^[bv]?\d+(\.\d+)*")


@lru_cache(maxsize=1024)
def parse_version(text: str) -> tuple[int, ...]:
    """The release's numbers: ``0.8.5.post1`` and ``v0.8.5`` are (0, 8, 5), ``b4567`` is (4567,).

    A suffix (``.post1``, ``rc2``, ``+cu128``) is left out: no accounting in the catalog changes
    inside one release.
    """
    found = _READABLE.match(text)
    if not found:
        raise Contradiction(
            "a version is written as numbers, like 0.11.0 or b4567", pointer="/runtime/version"
        )
    numbers = tuple(int(n) for n in _NUMBERS.findall(found.group()))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers
