"""The first bytes of local model files. Nothing behind a header is read, and nothing is run."""

from pathlib import Path
from typing import Any

import msgspec

from .errors import TruncatedFile, UnreadableFile
from .gguf import Header, read_header

LONGEST_SAFETENSORS_HEADER = 100_000_000
"""The limit of the reference implementation."""
FIRST_CHUNK = 2**20
LONGEST_GGUF_HEADER = 2**28


def read_safetensors_header(path: Path) -> dict[str, Any]:
    """Eight bytes of length, little-endian, then that much JSON."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= LONGEST_SAFETENSORS_HEADER:
                raise UnreadableFile(f"{path} is no safetensors file", pointer="")
            header = msgspec.json.decode(file.read(length))
    except OSError as problem:
        raise UnreadableFile(f"{path}: {problem.strerror}", pointer="") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableFile(f"the header of {path} is not JSON", pointer="") from None
    if not isinstance(header, dict):
        raise UnreadableFile(f"the header of {path} is not an object", pointer="")
    return header


def read_gguf_header_bytes(path: Path) -> bytes:
    """As many leading bytes as hold the header."""
    return _read_gguf(path)[0]


def read_gguf_header(path: Path) -> Header:
    return _read_gguf(path)[1]


def _read_gguf(path: Path) -> tuple[bytes, Header]:
    try:
        with path.open("rb") as file:
            data = file.read(FIRST_CHUNK)
            while True:
                try:
                    header = read_header(data)
                    return data[: header.size], header
                except TruncatedFile:
                    more = file.read(min(3 * len(data), LONGEST_GGUF_HEADER - len(data)))
                    if not more:
                        raise
                    data += more
    except OSError as problem:
        raise UnreadableFile(f"{path}: {problem.strerror}", pointer="") from None
    except UnreadableFile as problem:
        raise UnreadableFile(f"{path}: {problem.message}", pointer="") from None
