"""In which number formats are weights and cache, where a request says ``auto`` or a name?"""

from typing import NamedTuple

from tonnage.catalog.kinds import FormatRecord
from tonnage.catalog.release import Release
from tonnage.engine.answer import Note
from tonnage.engine.case import NamedCache, NamedWeights
from tonnage.engine.errors import Contradiction
from tonnage.engine.precision import WeightEncoding

from .names import record_of
from .requests import FitInferenceRequest, InlineModel, runtime_name

_HALF_PRECISION = ("llama.cpp", "ollama", "exllamav2", "exllamav3")
"""Runtimes whose cache is fp16 whatever the checkpoint is in."""

_CAST_TO_HALF = ("vllm", "sglang", "tgi")
"""Servers that load a float32 checkpoint as float16 unless told otherwise."""


def _formats(release: Release) -> list[FormatRecord]:
    return [r for r in release.records["formats"].values() if isinstance(r, FormatRecord)]


class Checkpoint(NamedTuple):
    """In what a model is published."""

    format: str
    encoding: WeightEncoding | None = None


def weights_of(
    request: FitInferenceRequest, release: Release, published: Checkpoint, notes: list[Note]
) -> NamedWeights:
    name, pointer, checkpoint = request.formats.weights, "/formats/weights", published.format
    if name == "auto":
        name = checkpoint
        if isinstance(request.model, InlineModel):
            pointer = "/model/checkpoint_format"
        if checkpoint == "fp32" and runtime_name(request) in _CAST_TO_HALF:
            name = "fp16"
        text = f"Weights in {name}, as the checkpoint is published."
        if name != checkpoint:
            text = f"Weights in {name}: the server casts those published in {checkpoint}."
        notes.append(Note(code="checkpoint_format", text=text, pointer="/formats/weights"))
    record = record_of(release, "formats", name, pointer, notes)
    assert isinstance(record, FormatRecord)
    if record.weights is None:
        known = (r.id for r in _formats(release) if r.weights is not None)
        raise Contradiction(
            f"{record.id} is not a format for weights",
            pointer=pointer,
            remedy=f"one of {', '.join(known)}",
        )
    own = published.encoding if record.id == checkpoint else None
    return NamedWeights(record.id, record.family, own or record.weights)


def caches_of(
    request: FitInferenceRequest, release: Release, checkpoint: str, notes: list[Note]
) -> tuple[NamedCache, NamedCache]:
    keys = _cache(
        request, release, request.formats.kv_cache, checkpoint, "/formats/kv_cache", notes
    )
    other = request.formats.kv_cache_values
    if other is None:
        return keys, keys
    if runtime_name(request) != "llama.cpp":
        raise Contradiction(
            "only llama.cpp stores values otherwise than keys",
            pointer="/formats/kv_cache_values",
            remedy="leave it out",
        )
    return keys, _cache(request, release, other, checkpoint, "/formats/kv_cache_values", notes)


def _cache(
    request: FitInferenceRequest,
    release: Release,
    name: str,
    checkpoint: str,
    pointer: str,
    notes: list[Note],
) -> NamedCache:
    if name == "auto":
        half = runtime_name(request) in _HALF_PRECISION or checkpoint in ("fp16", "fp32")
        name = "fp16" if half else "bf16"
    record = record_of(release, "formats", name, pointer, notes)
    assert isinstance(record, FormatRecord)
    if record.cache is None:
        known = (r.id for r in _formats(release) if r.cache is not None)
        raise Contradiction(
            f"{record.id} is not a format for the KV cache",
            pointer=pointer,
            remedy=f"one of {', '.join(known)}",
        )
    return NamedCache(record.id, record.family, record.cache)
