"""The base of every engine value, and the units they are written in."""

from typing import Annotated

import msgspec

KIB = 2**10
MIB = 2**20
GIB = 2**30
GB = 10**9

LARGEST_COUNT = 10**9
LARGEST_BYTES = 2**53 - 1
"""The largest integer that every JSON reader keeps exact (RFC 8259 section 6)."""

Count = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_COUNT)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_COUNT)]
ParameterCount = Annotated[int, msgspec.Meta(ge=0, le=10**14)]
Bytes = Annotated[int, msgspec.Meta(ge=1, le=LARGEST_BYTES)]
BytesOrZero = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_BYTES)]
Fraction = Annotated[float, msgspec.Meta(gt=0, le=1)]
Bits = Annotated[float, msgspec.Meta(gt=0, le=64)]
ShortText = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    cache_hash=True,
):
    """A frozen value that refuses fields it does not know; its hash, a cache's key, is kept."""


def ceil_div(amount: int, parts: int) -> int:
    return -(-amount // parts)


def round_up(amount: int, multiple: int) -> int:
    return ceil_div(amount, multiple) * multiple
