"""JSON decoded strictly: unknown fields refused, nothing coerced or clamped.

A refusal names the field by its JSON pointer, says what would be right, and suggests the field that
was probably meant. The service and the command line decode alike.
"""

import functools
import re
import types
import typing
from collections.abc import Hashable
from typing import Any, TypeVar, cast

import msgspec

from tonnage.catalog.names import nearest

T = TypeVar("T")

LONGEST_ECHO = 200
"""Characters of an offending value that an error repeats at most."""
MOST_SUGGESTIONS = 20

_PATH = re.compile(r" - at `(?P<key>key in )?\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"unknown field `(?P<name>.*)`", re.DOTALL)
_NOT_A_NUMBER = re.compile(rb"[:,\[\s]-?(NaN|Infinity)\b")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class FieldError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One field that is wrong; ``pointer`` is a JSON pointer into the body (RFC 6901)."""

    pointer: str
    message: str
    suggestions: tuple[str, ...] = ()
    """Names that were probably meant, or values that would be right."""


class MalformedJson(Exception):
    """The text is not JSON."""


class InvalidField(Exception):
    """A field is missing, unknown, of the wrong type or out of range."""

    def __init__(self, field: FieldError) -> None:
        super().__init__(field.message)
        self.field = field
        self.pointer = field.pointer


@functools.cache
def _decoder(of: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(of, strict=True)


def decode(body: bytes, of: type[T]) -> T:
    """Raises MalformedJson or InvalidField."""
    try:
        value: T = _decoder(cast(Hashable, of)).decode(body)
    except msgspec.ValidationError as error:
        raise InvalidField(field_error(str(error), of, _sent(body))) from None
    except RecursionError:
        raise MalformedJson("it is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        hint = "; NaN and Infinity are no JSON numbers" if _NOT_A_NUMBER.search(body) else ""
        raise MalformedJson(str(error)[:LONGEST_ECHO] + hint) from None
    if b"\\u0000" in body and _NUL.search(body):
        raise InvalidField(
            FieldError(pointer="", message="the character U+0000 can not be stored in text")
        )
    return value


def _sent(body: bytes) -> Any:
    """What was sent, as far as it is JSON: a field may be refused before the end is read."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def field_error(message: str, of: Any, sent: Any) -> FieldError:
    """msgspec's sentence, its path as a JSON pointer, what would be right for what was sent."""
    found = _PATH.search(message)
    steps: list[str] = []
    if found:
        message = message[: found.start()]
        steps = [s["name"] or s["index"] for s in _STEP.finditer(found["path"])]
    suggestions: tuple[str, ...] = ()
    unknown = _UNKNOWN.search(message)
    if unknown:
        name = unknown["name"][:LONGEST_ECHO]
        known = _fields(of, steps, sent)
        close = nearest(name, known, most=1)
        suggestions = close or tuple(known)[:MOST_SUGGESTIONS]
        hint = f". Did you mean {close[0]}?" if close else _one_of(tuple(known))
        steps.append(name)
        message = f"unknown field {name!r}{hint}"
    elif message.startswith(("Invalid value", "Invalid enum value")):
        suggestions = _choices(of, steps)
        message += _one_of(suggestions)
    pointer = "".join(f"/{escaped(step)}" for step in steps)
    return FieldError(pointer=pointer, message=message[:600], suggestions=suggestions)


def _one_of(names: tuple[str, ...]) -> str:
    more = " …" if len(names) > MOST_SUGGESTIONS else ""
    return f": one of {', '.join(names[:MOST_SUGGESTIONS])}{more}" if names else ""


def escaped(step: str) -> str:
    """A step of a JSON pointer."""
    return step.replace("~", "~0").replace("/", "~1")


def _fields(of: Any, steps: list[str], sent: Any) -> list[str]:
    """The field names of the struct that the path leads to, in a union of the one that was sent."""
    kinds = [of]
    for step in steps:
        kinds = [
            deeper for kind in kinds for part in _meant(kind, sent) for deeper in _step(part, step)
        ]
        sent = sent.get(step) if isinstance(sent, dict) else None
    structs = [part for kind in kinds for part in _meant(kind, sent) if _is_struct(part)]
    return list(dict.fromkeys(f for s in structs for f in s.__struct_encode_fields__))


def _meant(kind: Any, sent: Any) -> list[Any]:
    """The parts of a union, without the structs that what was sent names another than."""
    parts = _parts(kind)
    if not isinstance(sent, dict):
        return parts
    return [
        part
        for part in parts
        if not _is_struct(part)
        or part.__struct_config__.tag_field is None
        or sent.get(part.__struct_config__.tag_field) in (None, part.__struct_config__.tag)
    ]


def _choices(of: Any, steps: list[str]) -> tuple[str, ...]:
    """The values that a literal or a tag may have at the end of the path."""
    kinds = [of]
    for step in steps[:-1]:
        kinds = [deeper for kind in kinds for deeper in _step(kind, step)]
    last = steps[-1] if steps else ""
    found: list[str] = []
    for part in (part for kind in kinds for part in _parts(kind)):
        if _is_struct(part) and part.__struct_config__.tag_field == last:
            found.append(str(part.__struct_config__.tag))
        for deeper in _step(part, last):
            for literal in _parts(deeper):
                if typing.get_origin(literal) is typing.Literal:
                    found += map(str, typing.get_args(literal))
    return tuple(dict.fromkeys(found))[:MOST_SUGGESTIONS]


def _step(kind: Any, step: str) -> list[Any]:
    found = []
    for part in _parts(kind):
        origin, arguments = typing.get_origin(part), typing.get_args(part)
        if _is_struct(part):
            hints = typing.get_type_hints(part)
            if step in hints:
                found.append(hints[step])
        elif origin in (tuple, list):
            found.append(arguments[0])
        elif origin is dict:
            found.append(arguments[1])
    return found


def _is_struct(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, msgspec.Struct)


def _parts(kind: Any) -> list[Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _parts(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for argument in typing.get_args(kind) for part in _parts(argument)]
    return [kind]
