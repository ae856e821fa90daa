"""Bodies and query strings, decoded strictly: unknown fields refused, nothing coerced or clamped.

A refusal names the field by its JSON pointer, says what would be right, and suggests the field that
was probably meant.
"""

import functools
import re
import types
import typing
from typing import Any, TypeVar

import msgspec
from litestar import Request

from tonnage.catalog.names import nearest

from .problems import ApiError, FieldError

T = TypeVar("T")

_PATH = re.compile(r" - at `(?P<key>key in )?\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `(?P<name>.*)`", re.DOTALL)
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
LONGEST_ECHO = 200


@functools.cache
def decoder(of: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(of, strict=True)


async def read_json(request: Request, of: type[T]) -> T:
    """The body as ``of``. Raises ApiError: 400, 413 (from Litestar) or 415."""
    media_type = request.content_type[0]
    if media_type != "application/json":
        raise ApiError(
            "unsupported_media_type",
            f"{media_type[:LONGEST_ECHO] or 'a body without a media type'} is not supported; "
            "send application/json",
            headers={"Accept-Post": "application/json"},
        )
    return decode(await request.body(), of)


def decode(body: bytes, of: type[T]) -> T:
    try:
        value: T = decoder(of).decode(body)
    except msgspec.ValidationError as error:
        field = field_error(str(error), of)
        raise ApiError("invalid_field", field.message, errors=(field,)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError("malformed_json", f"the body is not JSON: {_short(error)}") from None
    if _NUL.search(body):
        raise ApiError("invalid_field", "the character U+0000 can not be stored in text")
    return value


def _short(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)[:LONGEST_ECHO]


def read_query(request: Request, of: type[T]) -> T:
    """The query string as ``of``. Raises ApiError naming the parameter."""
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise _query_error(name, "is given twice")
        given[name] = value
    try:
        return msgspec.convert(given, of, strict=False)
    except msgspec.ValidationError as error:
        field = field_error(str(error), of)
        raise ApiError("invalid_query", field.message, errors=(field,)) from None


def _query_error(name: str, what: str) -> ApiError:
    field = FieldError(pointer=f"/{escaped(name[:LONGEST_ECHO])}", message=f"the parameter {what}")
    return ApiError("invalid_query", field.message, errors=(field,))


def field_error(message: str, of: Any) -> FieldError:
    """msgspec's sentence with its path as a JSON pointer and, for an unknown field, a suggestion."""
    found = _PATH.search(message)
    steps: list[str] = []
    if found:
        message = message[: found.start()]
        steps = [s["name"] or s["index"] for s in _STEP.finditer(found["path"])]
    unknown = _UNKNOWN.search(message)
    if unknown:
        name = unknown["name"][:LONGEST_ECHO]
        known = _fields(of, steps)
        close = nearest(name, known, most=1)
        hint = f". Did you mean {close[0]}?" if close else ""
        steps.append(name)
        message = f"unknown field {name!r}{hint}"
        suggestions = close or tuple(known)[:12]
    else:
        suggestions = ()
    pointer = "".join(f"/{escaped(step)}" for step in steps)
    return FieldError(pointer=pointer, message=message[:600], suggestions=suggestions)


def escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")


def _fields(of: Any, steps: list[str]) -> list[str]:
    """The field names of the struct (or of any in a union) that the path leads to."""
    kinds = [of]
    for step in steps:
        kinds = [deeper for kind in kinds for deeper in _step(kind, step)]
    structs = [s for kind in kinds for s in _structs(kind)]
    return list(dict.fromkeys(f for s in structs for f in s.__struct_encode_fields__))


def _step(kind: Any, step: str) -> list[Any]:
    found = []
    for part in _parts(kind):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            hints = typing.get_type_hints(part, include_extras=False)
            if step in hints:
                found.append(hints[step])
        elif typing.get_origin(part) in (tuple, list):
            found.append(typing.get_args(part)[0])
        elif typing.get_origin(part) is dict:
            found.append(typing.get_args(part)[1])
    return found


def _structs(kind: Any) -> list[type[msgspec.Struct]]:
    return [p for p in _parts(kind) if isinstance(p, type) and issubclass(p, msgspec.Struct)]


def _parts(kind: Any) -> list[Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _parts(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for arg in typing.get_args(kind) for part in _parts(arg)]
    return [kind]
