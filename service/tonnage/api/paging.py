"""Pages by cursor: stable while the catalog moves, as a cursor keeps to its release."""

import base64
import binascii
from typing import Annotated, Generic, TypeVar

import msgspec

from .problems import ApiError

T = TypeVar("T")

Limit = Annotated[int, msgspec.Meta(ge=1, le=200, description="Records a page.")]
Cursor = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=1000,
        description="`next` of the page before; it keeps to that page's release.",
    ),
]


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    items: list[T]
    next: str | None
    """The cursor of the next page; null on the last."""
    total: int
    release: int
    suggestions: list[str]
    """For a search that found nothing: names that were probably meant."""


class Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    release: Annotated[int, msgspec.Meta(ge=1)]
    after: str


def cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(text: str) -> Place:
    """Raises ApiError for a cursor that this service did not make."""
    try:
        padded = text + "=" * (-len(text) % 4)
        return msgspec.json.decode(
            base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True), type=Place
        )
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise ApiError(
            "invalid_cursor", "the cursor was not made by this service; start without one"
        ) from None
