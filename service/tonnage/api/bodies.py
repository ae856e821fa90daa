"""Bodies and query strings of requests, decoded strictly."""

import functools
from collections.abc import Hashable
from functools import cache
from operator import or_
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_type_hints

import msgspec

from tonnage.catalog.names import nearest
from tonnage.decoding import (
    LONGEST_ECHO,
    FieldError,
    InvalidField,
    MalformedJson,
    decode,
    escaped,
)

from .call import Call
from .problems import ApiError

T = TypeVar("T")


async def read_json(request: Call, of: type[T]) -> T:
    """The body as ``of``. Raises ApiError: 400 or 415; Litestar raises 413."""
    media_type = _media_type(request)
    if media_type != "application/json":
        raise ApiError(
            "unsupported_media_type",
            f"{media_type[:LONGEST_ECHO] or 'a body without a media type'} is not supported; "
            "send application/json",
            headers={"Accept-Post": "application/json"},
        )
    try:
        return decode(await request.body(), of)
    except InvalidField as error:
        raise ApiError("invalid_field", str(error), errors=(error.field,)) from None
    except MalformedJson as error:
        raise ApiError("malformed_json", f"the body is not JSON: {error}") from None


def _media_type(request: Call) -> str:
    """Without parameters; read from the scope, since building Litestar's headers costs 6 µs."""
    for name, value in request.scope["headers"]:
        if name == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def read_query(request: Call, of: type[T]) -> T:
    """The query string as ``of``, all of whose fields may be left out. Raises ApiError."""
    if not request.scope["query_string"]:
        return of()
    known = _parameters(cast(Hashable, of))
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise _refused(name, "the parameter is given twice")
        if name not in known:
            close = nearest(name, list(known), most=1)
            hint = f". Did you mean {close[0]}?" if close else ""
            text = f"unknown parameter {name[:LONGEST_ECHO]!r}{hint}"
            raise _refused(name, text, close or tuple(known))
        try:
            given[name] = msgspec.convert(value, known[name], strict=False)
        except msgspec.ValidationError as error:
            raise _refused(name, str(error)) from None
    return of(**given)


@cache
def _parameters(of: Any) -> dict[str, Any]:
    """The type of each parameter, without None: in an address ``null`` is a word like others."""
    hints = get_type_hints(of, include_extras=True)
    return {
        name: functools.reduce(or_, [part for part in get_args(hint) if part is not NoneType])
        if NoneType in get_args(hint)
        else hint
        for name, hint in hints.items()
    }


def _refused(name: str, message: str, suggestions: tuple[str, ...] = ()) -> ApiError:
    field = FieldError(
        pointer=f"/{escaped(name[:LONGEST_ECHO])}", message=message, suggestions=suggestions
    )
    return ApiError("invalid_query", message, errors=(field,))
