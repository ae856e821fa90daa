"""How many bytes an architecture takes in a number format, and how many parameters are active."""

from functools import cache
from importlib.resources import files

import msgspec

from tonnage.catalog.kinds import FormatRecord
from tonnage.engine.feed_forward import MixtureOfExperts
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding


@cache
def formats() -> dict[str, FormatRecord]:
    """The seed's number formats by id."""
    decode = msgspec.json.Decoder(FormatRecord).decode_lines
    folder = files("tonnage.catalog.seed") / "formats"
    found = [
        record
        for file in folder.iterdir()
        if file.name.endswith(".jsonl")
        for record in decode(file.read_bytes())
    ]
    return {record.id: record for record in found}


def encoding_of(format_id: str) -> WeightEncoding | None:
    record = formats().get(format_id)
    return record.weights if record else None


def checkpoint_bytes(architecture: ModelArchitecture, encoding: WeightEncoding) -> float:
    """Bytes of a checkpoint, prediction layers included, without padding."""
    bits = sum(
        module.parameters * encoding.bits(module.role) * architecture.layer_counts[name]
        for name, modules in architecture.layer_modules.items()
        for module in modules
    )
    embedding = encoding.embedding_bits(architecture.tied_embeddings)
    head = 0 if architecture.tied_embeddings else encoding.bits("output_head")
    bits += architecture.embedding_parameters * (embedding + head)
    bits += sum(extra.parameters * encoding.bits(extra.role) for extra in architecture.extras)
    bits += architecture.hidden_size * architecture.final_norm * encoding.bits("norm")
    return bits / 8


def active_parameters(architecture: ModelArchitecture) -> int | None:
    """Parameters that one token passes; None for a model without experts."""
    if not architecture.experts:
        return None
    idle = 0.0
    for name, layer in architecture.kinds.items():
        for part in layer.feed_forward:
            if isinstance(part, MixtureOfExperts):
                routed = sum(
                    module.parameters
                    for module in part.modules(architecture.hidden_size)
                    if module.shard == "expert"
                )
                idle += routed * (1 - part.active_share()) * architecture.layer_counts[name]
    return architecture.parameters - round(idle)


def gguf_formats() -> dict[str, WeightEncoding]:
    return {
        record.id: record.weights
        for record in formats().values()
        if record.family == "gguf" and record.weights
    }
