"""One spelling for equal values: sorted keys, fields that hold their default left out.

msgspec's own ``omit_defaults`` compares most values by identity, so a default that was spelled out
in JSON would be kept; here it is left out by value. A field that is added later, with a default,
leaves the bytes of older values as they were.
"""

from collections.abc import Hashable
from functools import cache
from types import NoneType
from typing import Any, NamedTuple, cast

import msgspec

_encoder = msgspec.json.Encoder(order="sorted")


class _Field(NamedTuple):
    name: str
    key: str
    default: Any


class _Shape(NamedTuple):
    tag: tuple[str, Any] | None
    fields: tuple[_Field, ...]


_REQUIRED = object()
_BUILTIN = frozenset({str, int, float, bool, NoneType})


@cache
def _shape(of: type[msgspec.Struct]) -> _Shape:
    config = of.__struct_config__
    tag = (config.tag_field, config.tag) if config.tag_field is not None else None
    fields = tuple(
        _Field(field.name, field.encode_name, _default(field))
        for field in msgspec.structs.fields(of)
    )
    return _Shape(tag, fields)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _REQUIRED


def plain(value: Any) -> Any:
    """Builtins, without what is left at its default."""
    kind = type(value)
    if kind in _BUILTIN:
        return value
    if isinstance(value, msgspec.Struct):
        tag, fields = _shape(cast(Hashable, kind))
        found = {} if tag is None else {tag[0]: tag[1]}
        for name, key, default in fields:
            held = getattr(value, name)
            if held is not default and held != default:
                found[key] = held if type(held) in _BUILTIN else plain(held)
        return found
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def canonical(value: Any) -> bytes:
    return _encoder.encode(plain(value))
