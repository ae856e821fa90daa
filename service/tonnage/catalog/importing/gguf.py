"""The header of a GGUF file, from its first bytes: metadata and what each tensor is.

The layout is in ggml's ``docs/gguf.md`` (versions 2 and 3, little-endian): magic, version, number
of tensors, number of metadata pairs, the pairs, then name, dimensions, type and offset of each
tensor. Every read is checked against the end of the bytes, and nothing is allocated by a number in
the file: texts and lists that are long (a tokenizer's) are stepped over.
"""

import math
import struct
from typing import Final, NamedTuple

from .errors import TruncatedFile, UnreadableFile
from .ggml_types import GGML_TYPES, GgmlType

MAGIC: Final = b"GGUF"
VERSIONS = (2, 3)
MOST_PAIRS = 100_000
MOST_TENSORS = 1_000_000
LONGEST_NAME = 65_535
"""Of a key, in bytes (gguf.md); ggml allows tensor names of 64."""
LONGEST_TEXT = 4096
LONGEST_LIST = 4096
DEEPEST_LIST = 4
MOST_DIMENSIONS = 4
MOST_ELEMENTS = 10**14

TEXT, LIST, BOOLEAN = 8, 9, 7
SCALARS: Final = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    BOOLEAN: "B",
    10: "Q",
    11: "q",
    12: "d",
}
"""Value type to :mod:`struct`'s letter."""

Scalar = bool | int | float | str


class Skipped(NamedTuple):
    """A value that is there and was not kept: a long text, a long list, a list of texts."""

    length: int


MetadataValue = Scalar | tuple[Scalar, ...] | Skipped


class Tensor(NamedTuple):
    name: str
    shape: tuple[int, ...]
    """ggml's order: the length of a row first."""
    type: GgmlType
    type_number: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements // self.type.block_elements * self.type.block_bytes


class Header(NamedTuple):
    metadata: dict[str, MetadataValue]
    tensors: tuple[Tensor, ...]
    size: int
    """How many of the bytes were the header."""


def read_header(data: bytes) -> Header:
    """Raises TruncatedFile where more bytes would help, UnreadableFile where they would not."""
    cursor = _Cursor(data)
    if cursor.take(4) != MAGIC:
        raise UnreadableFile("the bytes do not start with GGUF")
    version = cursor.number("I")
    if int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS:
        raise UnreadableFile("the file is big-endian, which is not read")
    if version not in VERSIONS:
        raise UnreadableFile(f"GGUF version {version} is not read; 2 and 3 are")
    tensor_count = cursor.count("tensors", MOST_TENSORS)
    pair_count = cursor.count("metadata pairs", MOST_PAIRS)
    metadata: dict[str, MetadataValue] = {}
    for _ in range(pair_count):
        key = cursor.name()
        if key in metadata:
            raise UnreadableFile(f"the key {key[:100]!r} is there twice")
        metadata[key] = cursor.value(cursor.number("I"))
    tensors: dict[str, Tensor] = {}
    for _ in range(tensor_count):
        tensor = cursor.tensor()
        if tensor.name in tensors:
            raise UnreadableFile(f"the tensor {tensor.name[:100]!r} is there twice")
        tensors[tensor.name] = tensor
    return Header(metadata, tuple(tensors.values()), cursor.position)


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def skip(self, length: int) -> int:
        """Step over ``length`` bytes that must be there; where they begin."""
        start = self.position
        if length > len(self._data) - start:
            raise TruncatedFile(f"the header goes on after the {len(self._data)} bytes given")
        self.position = start + length
        return start

    def take(self, length: int) -> bytes:
        start = self.skip(length)
        return self._data[start : self.position]

    def number(self, letter: str) -> int:
        found: int = struct.unpack_from(f"<{letter}", self._data, self._room(letter))[0]
        return found

    def _room(self, letters: str) -> int:
        return self.skip(struct.calcsize(f"<{letters}"))

    def count(self, what: str, most: int) -> int:
        found = self.number("Q")
        if found > most:
            raise UnreadableFile(f"the header counts {found} {what}; at most {most} are read")
        return found

    def name(self) -> str:
        length = self.number("Q")
        if length > LONGEST_NAME:
            raise UnreadableFile(f"a name is {length} bytes long; at most {LONGEST_NAME} are read")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise UnreadableFile("a name is not UTF-8") from None

    def value(self, kind: int) -> MetadataValue:
        if kind == TEXT:
            length = self.number("Q")
            if length > LONGEST_TEXT:
                self.skip(length)
                return Skipped(length)
            return self.take(length).decode(errors="replace")
        if kind == LIST:
            return self._list(DEEPEST_LIST)
        return self._scalars(kind, 1)[0]

    def _scalars(self, kind: int, count: int) -> tuple[Scalar, ...]:
        letter = self._letter(kind)
        found = struct.unpack_from(f"<{count}{letter}", self._data, self._room(f"{count}{letter}"))
        return tuple(map(bool, found)) if kind == BOOLEAN else found

    def _letter(self, kind: int) -> str:
        if kind not in SCALARS:
            raise UnreadableFile(f"a value has type {kind}, which GGUF does not have")
        return SCALARS[kind]

    def _list(self, deepest: int) -> MetadataValue:
        if deepest == 0:
            raise UnreadableFile(f"lists are nested more than {DEEPEST_LIST} deep")
        kind, count = self.number("I"), self.number("Q")
        if kind == TEXT:
            self._skip_texts(count)
        elif kind == LIST:
            for _ in range(count):
                self._list(deepest - 1)
        elif count > LONGEST_LIST:
            self.skip(count * struct.calcsize(f"<{self._letter(kind)}"))
        else:
            return self._scalars(kind, count)
        return Skipped(count)

    def _skip_texts(self, count: int) -> None:
        """A tokenizer has hundreds of thousands, so this loop does as little as it can."""
        data, position, last = self._data, self.position, len(self._data) - 8
        unpack = struct.Struct("<Q").unpack_from
        for _ in range(count):
            if position > last:
                break
            position += 8 + unpack(data, position)[0]
        else:
            self.skip(position - self.position)
            return
        self.skip(len(data) + 1)

    def tensor(self) -> Tensor:
        name = self.name()
        dimensions = self.number("I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise UnreadableFile(f"the tensor {name[:100]!r} has {dimensions} dimensions")
        shape = tuple(self.number("Q") for _ in range(dimensions))
        if not 1 <= math.prod(shape) <= MOST_ELEMENTS:
            raise UnreadableFile(f"the tensor {name[:100]!r} has {math.prod(shape)} elements")
        number = self.number("I")
        self.skip(8)
        kind = GGML_TYPES.get(number)
        if kind is None:
            raise UnreadableFile(f"the tensor {name[:100]!r} has type {number}, which is not known")
        if shape[0] % kind.block_elements:
            raise UnreadableFile(
                f"rows of {shape[0]} elements do not fill blocks of {kind.block_elements}, in the "
                f"tensor {name[:100]!r} of type {kind.name}"
            )
        return Tensor(name, shape, kind, number)
