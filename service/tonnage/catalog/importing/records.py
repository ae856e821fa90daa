"""A model record from what a caller sends. Pure: nothing is fetched, run or stored."""

import base64
from typing import Any, Literal

import msgspec

from tonnage.catalog.kinds import ModelRecord, Source
from tonnage.engine.errors import Contradiction, UnknownArchitecture
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding

from .agreement import (
    checkpoint_findings,
    gguf_findings,
    gguf_format,
    gguf_parameters,
    published,
    without_tied_head,
)
from .encodings import own_encoding
from .errors import GGUF_POINTER, UnreadableFile
from .gguf import Header, read_header
from .gguf_architectures import FAMILIES, architecture_from_gguf
from .gguf_encodings import gguf_encoding
from .huggingface import architecture_from_config
from .number_formats import checkpoint_format_from_config
from .requests import ImportedModel, ImportModelRequest
from .sizes import active_parameters, encoding_of

ModelType = Literal[
    "decoder",
    "multimodal_decoder",
    "embedding",
    "encoder",
    "encoder_decoder",
    "speech_to_text",
]
MOST_PARAMETERS = 10**14
"""What a record can hold; sizes that are each plausible can multiply to more."""
SAMPLE_NOTHING = ("embedding", "encoder")
BESIDE_CONFIG = ("safetensors_index", "safetensors_header")


def import_model(request: ImportModelRequest) -> ImportedModel:
    """Raises Contradiction, UnknownArchitecture or UnreadableFile, with the pointer to what is
    wrong."""
    if request.config is not None and request.gguf_header is not None:
        raise Contradiction("send a config or a GGUF header, not both", pointer=GGUF_POINTER)
    if request.config is not None:
        return _from_config(request, request.config)
    if request.gguf_header is None:
        raise Contradiction("send a config or a GGUF header", pointer="/config")
    for name in BESIDE_CONFIG:
        if getattr(request, name) is not None:
            raise Contradiction(f"{name} goes with a config", pointer=f"/{name}")
    return _from_gguf(request, request.gguf_header)


def _from_config(request: ImportModelRequest, config: dict[str, Any]) -> ImportedModel:
    try:
        architecture = architecture_from_config(config)
        form = checkpoint_format_from_config(config)
    except UnknownArchitecture as problem:
        raise UnknownArchitecture(problem.message, pointer=f"/config{problem.pointer}") from None
    _check_total(architecture, "/config")
    scheme = config.get("quantization_config")
    bits = scheme.get("bits") if isinstance(scheme, dict) else None
    said = published(request.safetensors_index, request.safetensors_header, form, bits)
    model_type = str(config.get("model_type"))
    names = said.names or frozenset(request.safetensors_header or ())
    record = _record(
        request,
        architecture,
        source="config.json supplied by the caller",
        checkpoint_format=form,
        checkpoint_encoding=own_encoding(encoding_of(form), architecture, config, names),
        model_type=model_type,
        type=_type(architecture, model_type, config.get("architectures")),
        family=request.family or model_type,
        published_parameters=without_tied_head(architecture, said).parameters,
    )
    return _answer(
        record,
        architecture,
        list(checkpoint_findings(architecture, form, said, record.checkpoint_encoding)),
    )


def _from_gguf(request: ImportModelRequest, encoded: str) -> ImportedModel:
    header = read_header(_decoded(encoded))
    architecture = architecture_from_gguf(header)
    _check_total(architecture, GGUF_POINTER)
    form = gguf_format(header)
    if form is None:
        raise UnknownArchitecture(
            "most tensors are of a type that no number format of the catalog has",
            pointer=GGUF_POINTER,
        )
    name = _text(header, "general.architecture") or ""
    record = _record(
        request,
        architecture,
        source="GGUF header supplied by the caller",
        checkpoint_format=form,
        checkpoint_encoding=gguf_encoding(header, architecture),
        model_type=FAMILIES[name].model_type,
        type="decoder",
        family=request.family or _text(header, "general.basename") or name,
        vendor=_text(header, "general.organization"),
        licence=_text(header, "general.license"),
        published_parameters=gguf_parameters(header),
    )
    findings = list(gguf_findings(architecture, form, header))
    if name == "deepseek2" and "deepseek2.attention.key_length_mla" not in header.metadata:
        findings.append(
            "the file is from before llama.cpp kept latent vectors: it keeps every head's keys "
            "and values, which is more than is estimated; convert the model again"
        )
    return _answer(record, architecture, findings)


def _check_total(architecture: ModelArchitecture, pointer: str) -> None:
    count = architecture.stored_parameters
    if count > MOST_PARAMETERS:
        raise UnknownArchitecture(
            f"the sizes make {count:,} parameters; a record holds {MOST_PARAMETERS:,}",
            pointer=pointer,
        )


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise UnreadableFile("the header is not base64") from None


def _text(header: Header, key: str) -> str | None:
    """One line of metadata; None where it is missing or says nothing."""
    value = header.metadata.get(key)
    if not isinstance(value, str):
        return None
    line = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return line[:400] or None


def _type(architecture: ModelArchitecture, model_type: str, classes: Any) -> ModelType:
    if model_type == "whisper":
        return "speech_to_text"
    if model_type == "t5":
        return "encoder_decoder"
    if not any(caches for caches in architecture.layer_caches.values()):
        return "encoder"
    if any(extra.role == "encoder" for extra in architecture.extras):
        return "multimodal_decoder"
    bare = isinstance(classes, list) and bool(classes)
    return "embedding" if bare and all(str(c).endswith("Model") for c in classes) else "decoder"


def _record(
    request: ImportModelRequest,
    architecture: ModelArchitecture,
    *,
    source: str,
    checkpoint_format: str,
    model_type: str,
    type: ModelType,  # noqa: A002
    family: str,
    published_parameters: int | None,
    checkpoint_encoding: WeightEncoding | None = None,
    vendor: str | None = None,
    licence: str | None = None,
) -> ModelRecord:
    owner, _, last = request.id.rpartition("/")
    return ModelRecord(
        id=request.id,
        name=request.name or last or request.id,
        sources=(Source(title=source),),
        family=family,
        vendor=request.vendor or vendor or owner or "unknown",
        type=type,
        model_type=model_type,
        architecture=(
            msgspec.structs.replace(architecture, generates=False)
            if type in SAMPLE_NOTHING
            else architecture
        ),
        checkpoint_format=checkpoint_format,
        checkpoint_encoding=checkpoint_encoding,
        published_parameters=published_parameters,
        active_parameters=active_parameters(architecture),
        licence=request.licence or licence,
        released=request.released,
    )


def _answer(
    record: ModelRecord, architecture: ModelArchitecture, findings: list[str]
) -> ImportedModel:
    return ImportedModel(
        record=record,
        parameters=architecture.parameters,
        stored_parameters=architecture.stored_parameters,
        findings=findings,
    )
