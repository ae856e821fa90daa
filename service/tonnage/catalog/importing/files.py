"""An import request from local files: a config.json, a model's folder, or a GGUF file."""

import base64
import re
from pathlib import Path
from typing import Any

import msgspec

from tonnage.engine.errors import Contradiction

from .errors import UnreadableFile
from .gguf_parts import merged, part_count
from .requests import ImportModelRequest
from .safetensors import read_gguf_header, read_safetensors_header

LONGEST_JSON = 64 * 2**20
SPLIT = re.compile(r"^(?P<stem>.*)-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
INDEX = "model.safetensors.index.json"


def request_from_path(
    path: Path,
    id: str | None = None,  # noqa: A002
) -> ImportModelRequest:
    """Raises UnreadableFile, and Contradiction for an id that can not be one."""
    if path.suffix.lower() == ".gguf":
        given: dict[str, Any] = {"gguf_header": _gguf(path)}
        split = SPLIT.match(path.name)
        name = split["stem"] if split else path.stem
    else:
        folder = path if path.is_dir() else path.resolve().parent
        given = {"config": read_json(path / "config.json" if path.is_dir() else path)}
        given |= _weights(folder)
        name = folder.resolve().name if path.name in ("config.json", folder.name) else path.stem
    try:
        return msgspec.convert({"id": id or _as_id(name), **given}, ImportModelRequest)
    except msgspec.ValidationError as problem:
        raise Contradiction(str(problem), pointer="/id" if "$.id" in str(problem) else "") from None


def read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LONGEST_JSON:
            raise UnreadableFile(f"{path} is too large", pointer="")
        value = msgspec.json.decode(path.read_bytes())
    except OSError as problem:
        raise UnreadableFile(f"{path}: {problem.strerror}", pointer="") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnreadableFile(f"{path} is not JSON", pointer="") from None
    if not isinstance(value, dict):
        raise UnreadableFile(f"{path} is not a JSON object", pointer="")
    return value


def _weights(folder: Path) -> dict[str, Any]:
    """The index and the headers of the weight files beside a configuration, if any are there."""
    given: dict[str, Any] = {}
    if (folder / INDEX).is_file():
        given["safetensors_index"] = read_json(folder / INDEX)
    parts = sorted(folder.glob("model*.safetensors"))
    header: dict[str, Any] = {}
    for part in parts:
        header |= read_safetensors_header(part)
    if header:
        given["safetensors_header"] = header
    return given


def _gguf(path: Path) -> str:
    first = read_gguf_header(path)
    headers = [first]
    count = part_count(first)
    split = SPLIT.match(path.name)
    if count > 1 and split:
        parts = sorted(path.parent.glob(f"{_literal(split['stem'])}-*-of-{count:05}.gguf"))
        if len(parts) != count:
            raise UnreadableFile(f"{len(parts)} of the {count} parts are beside {path}", pointer="")
        headers = [read_gguf_header(part) for part in parts]
    elif count > 1:
        raise UnreadableFile(f"{path} is one of {count} parts, and not named as one", pointer="")
    return base64.b64encode(merged(headers)).decode()


def _literal(stem: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", stem)


def _as_id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._:@+-]+", "-", name).strip("-._:@+") or "model"
