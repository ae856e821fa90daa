"""Bodies and query strings of requests, decoded strictly."""

from typing import Any, TypeVar

import msgspec

from tonnage.decoding import (
    LONGEST_ECHO,
    FieldError,
    InvalidField,
    MalformedJson,
    decode,
    escaped,
    field_error,
)

from .call import Call
from .problems import ApiError

T = TypeVar("T")


async def read_json(request: Call, of: type[T]) -> T:
    """The body as ``of``. Raises ApiError: 400 or 415; Litestar raises 413."""
    media_type = request.content_type[0]
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


def read_query(request: Call, of: type[T]) -> T:
    """The query string as ``of``, all of whose fields may be left out. Raises ApiError."""
    if not request.scope["query_string"]:
        return of()
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            field = FieldError(
                pointer=f"/{escaped(name[:LONGEST_ECHO])}", message="the parameter is given twice"
            )
            raise ApiError("invalid_query", field.message, errors=(field,))
        given[name] = value
    try:
        return msgspec.convert(given, of, strict=False)
    except msgspec.ValidationError as error:
        field = field_error(str(error), of)
        raise ApiError("invalid_query", field.message, errors=(field,)) from None
