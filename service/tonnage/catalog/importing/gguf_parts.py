"""A small GGUF header that says the same: no tokenizer, and the parts of a split file as one.

A header with its tokenizer is megabytes long, which is more than a request needs to carry.
"""

import struct
from collections.abc import Iterable, Sequence

from .errors import UnreadableFile
from .gguf import BOOLEAN, LIST, MAGIC, TEXT, Header, MetadataValue, Scalar, Skipped, Tensor

UNSIGNED, SIGNED, REAL = 10, 11, 12


def part_count(header: Header) -> int:
    """How many files the model is split into (llama.cpp ``gguf-split``)."""
    stated = header.metadata.get("split.count")
    return stated if isinstance(stated, int) and stated > 1 else 1


def merged(headers: Sequence[Header]) -> bytes:
    """One header of all tensors, with the first part's metadata (version 3)."""
    tensors = [tensor for header in headers for tensor in header.tensors]
    stated = headers[0].metadata.get("split.tensors.count")
    if len(headers) > 1 and isinstance(stated, int) and stated != len(tensors):
        raise UnreadableFile(
            f"the parts have {len(tensors)} tensors, and say that there are {stated}", pointer=""
        )
    kept = {
        key: value
        for key, value in headers[0].metadata.items()
        if not isinstance(value, Skipped) and not key.startswith(("split.", "tokenizer."))
    }
    return encode(kept, tensors)


def encode(metadata: dict[str, MetadataValue], tensors: Iterable[Tensor]) -> bytes:
    infos = [_tensor(tensor) for tensor in tensors]
    pairs = [
        _text(key) + struct.pack("<I", _kind(value)) + _value(value)
        for key, value in metadata.items()
        if not isinstance(value, Skipped)
    ]
    start = MAGIC + struct.pack("<IQQ", 3, len(infos), len(pairs))
    return b"".join([start, *pairs, *infos])


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _kind(value: Scalar | tuple[Scalar, ...]) -> int:
    if isinstance(value, tuple):
        return LIST
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return UNSIGNED if value >= 0 else SIGNED
    return REAL if isinstance(value, float) else TEXT


def _value(value: Scalar | tuple[Scalar, ...]) -> bytes:
    if isinstance(value, tuple):
        kinds = {_kind(one) for one in value} or {UNSIGNED}
        kind = kinds.pop() if len(kinds) == 1 else SIGNED
        items = b"".join(_scalar(one, kind) for one in value)
        return struct.pack("<IQ", kind, len(value)) + items
    return _scalar(value, _kind(value))


def _scalar(value: Scalar, kind: int) -> bytes:
    if isinstance(value, str):
        return _text(value)
    return struct.pack({BOOLEAN: "<B", UNSIGNED: "<Q", SIGNED: "<q", REAL: "<d"}[kind], value)


def _tensor(tensor: Tensor) -> bytes:
    shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
    return _text(tensor.name) + shape + struct.pack("<IQ", tensor.type_number, 0)
