"""With how many bits does a GGUF file of a row store what?

By its type where the file's size agrees, else by its size: a type says what most tensors are, and
dynamic or re-quantized files differ.
"""

import re

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import FormatRecord
from tonnage.catalog.release import Release
from tonnage.engine.case import InferenceCase, NamedWeights
from tonnage.engine.memory.runtimes.llama_cpp_terms import output_bytes
from tonnage.engine.memory.weights import layer_bytes, vocabulary_bytes
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import RoleBits, WeightEncoding
from tonnage.engine.values import GIB

from .rows import LocalRow

SAME_MIX = 0.04
"""A file whose size is this near to what its format gives is of that format."""
_FILE = re.compile(r"\bfile ([\d,.]+) (B|GB)\b")
_KEEPS_PREDICTION = re.compile(r"(?i)glm-?4\.[5-9]")
"""Models whose GGUF files keep the prediction layers, which are not loaded (llama.cpp pull request
14939); other files say so by a layer more than the model has."""


class NoSizeError(Exception):
    """Neither the number format nor the size of the file is known."""


def weights_of_file(
    row: LocalRow, release: Release, case: InferenceCase
) -> tuple[NamedWeights, bool]:
    """The catalog's mix for the file's type if the file's size agrees, else bits by the size.

    The type that a file prints is not its mix: re-quantized and dynamic files print the nearest.
    """
    named = _named(row, release)
    bits = _bits_of_file(row, case.model)
    if named is not None and (bits is None or _near(case, named, bits)):
        return named, False
    if bits is None:
        raise NoSizeError
    if named is not None:
        scaled = _scaled(case, named, bits)
        if scaled is not None:
            return scaled, True
    encoding = WeightEncoding(bits_per_weight=bits, except_roles=RoleBits(norm=32))
    return NamedWeights("by the file's size", "gguf", encoding), True


def _named(row: LocalRow, release: Release) -> NamedWeights | None:
    if row.gguf_quant is None:
        return None
    name = row.gguf_quant.split(" - ")[0] if "bpw" in row.gguf_quant else row.gguf_quant
    sixteen = name.upper() in ("F16", "BF16")
    try:
        record = release.resolve("formats", "gguf-f16" if sixteen else name).record
    except UnknownRecord:
        return None
    assert isinstance(record, FormatRecord)
    if record.weights is None or (record.family != "gguf" and record.id != "mxfp4"):
        return None
    return NamedWeights(record.id, record.family, record.weights)


def _bits_of_file(row: LocalRow, model: ModelArchitecture) -> float | None:
    """Bits of a parameter, over all that the file stores."""
    stated = _FILE.search(row.note or "")
    size = row.observed.model_size_gib
    if size is None and stated is not None:
        amount = float(stated.group(1).replace(",", ""))
        size = amount * (1e9 if stated.group(2) == "GB" else 1) / GIB
    if size is None:
        return row.observed.bpw
    more_layers = (row.setup.layers_total or 0) > model.layer_count + 1
    keeps = more_layers or _KEEPS_PREDICTION.search(row.model or "")
    return 8 * size * GIB / (model.stored_parameters if keeps else model.parameters)


_KEPT_WHOLE = ("norm", "bias", "router", "state_space_small", "encoder")
_OF_EXPERTS = ("expert_gate_up", "expert_down")
_BOUNDS = (0.25, 2.5)
"""How far a mix may be stretched and still be called one: beyond, bits are taken as equal."""


def _scaled(case: InferenceCase, named: NamedWeights, bits: float) -> NamedWeights | None:
    """The named mix stretched to the file's size: all that it quantizes by one factor.

    What is named after 16 bits has only its experts smaller. None where that gives no sense.
    """
    own = named.encoding
    sixteen = own.bits_per_weight == 16
    roles = _OF_EXPERTS if sixteen else _ROLES
    kept = {role: getattr(own.except_roles, role) for role in RoleBits.__struct_fields__}

    def at(factor: float) -> NamedWeights:
        changed = dict(kept)
        for role in roles:
            changed[role] = (kept[role] or own.bits_per_weight) * factor
        if changed["tied_embedding"] is None:
            changed["tied_embedding"] = changed["embedding"]
        encoding = msgspec.structs.replace(own, except_roles=RoleBits(**changed))
        return NamedWeights(f"{named.id} by the file's size", named.family, encoding)

    wanted = bits * case.model.parameters / 8
    least, most = (file_bytes(msgspec.structs.replace(case, weights=at(f))) for f in (1, 2))
    if most <= least:
        return None
    factor = 1 + (wanted - least) / (most - least)
    return at(factor) if _BOUNDS[0] < factor < _BOUNDS[1] else None


_ROLES = tuple(role for role in RoleBits.__struct_fields__ if role not in _KEPT_WHOLE)


def _near(case: InferenceCase, named: NamedWeights, bits: float) -> bool:
    whole = file_bytes(msgspec.structs.replace(case, weights=named))
    return abs(8 * whole / case.model.parameters / bits - 1) < SAME_MIX


def file_bytes(case: InferenceCase) -> int:
    """The file's tensors: a tied embedding once."""
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    embedding, _ = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    whole = sum(layers[name] for name in case.model.order) + output_bytes(case)
    return whole if case.model.tied_embeddings else whole + embedding
