"""From the setup of a local engine's row to the engine's case.

ik_llama.cpp, a fork, is taken as the llama.cpp that it came from; it keeps latent attention in ways
of its own.
"""

import re

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import FormatRecord
from tonnage.catalog.release import Release
from tonnage.engine.attention import LatentAttention
from tonnage.engine.case import InferenceCase, NamedWeights
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.hardware import Accelerator
from tonnage.engine.memory.runtimes.llama_cpp_terms import output_bytes
from tonnage.engine.memory.weights import layer_bytes, vocabulary_bytes
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import RoleBits, WeightEncoding
from tonnage.engine.values import GIB
from tonnage.engine.workload import InferenceWorkload
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    LlamaCppRuntime,
)
from tonnage.plans.resolve import resolve

from .devices import STAND_IN, accelerator
from .rows import LocalRow
from .versions import llama_cpp_version

ENGINES = ("llama.cpp", "ik_llama.cpp")
RAN = {"fits": True, "partial_offload": True, "OOM": False}
NOT_JUDGED = ("cpu_only",)
DEFAULT_CONTEXT = 512
"""llama.cpp's --ctx-size in the builds of the rows that state none."""
SAME_MIX = 0.04
"""A file whose size is this near to what its format gives is of that format."""

_OVERRIDES = re.compile(r"overridden to CPU|-ot\b")
_SWA_FULL = re.compile(r"--swa-full")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    case: InferenceCase
    device: Accelerator | None
    on_processor: bool
    overrides: bool
    version_known: bool
    by_file_size: bool


class NoSizeError(Exception):
    """Neither the number format nor the size of the file is known."""


def refusal(row: LocalRow) -> str | None:
    if row.engine not in ENGINES:
        return f"the memory of {row.engine} is not modelled"
    if row.quality == "C":
        return "quality C is not scored"
    if row.observed.outcome is not None and row.observed.outcome not in (*RAN, *NOT_JUDGED):
        return f"the outcome {row.observed.outcome!r} is not known"
    return None


def is_latent(model: ModelArchitecture) -> bool:
    return any(
        isinstance(mixer, LatentAttention) for layer in model.layers for mixer in layer.mixers
    )


def setting_of(row: LocalRow, release: Release, model: ModelArchitecture) -> Setting:
    setup, note = row.setup, row.note or ""
    on_processor = setup.device == "CPU" or row.observed.outcome == "cpu_only"
    device = accelerator(release, setup.device, setup.device_memory_gib, None)
    sequences = setup.n_parallel or 1
    context = max((setup.n_ctx or DEFAULT_CONTEXT) // sequences, 1)
    if context > model.longest_context_tokens:
        model = msgspec.structs.replace(model, longest_context_tokens=context)
    layers = 0 if on_processor else setup.ngl
    version = llama_cpp_version(row.engine, row.build)
    keys = setup.cache_type_k or "auto"
    values = setup.cache_type_v
    request = FitInferenceRequest(
        model=InlineModel(architecture=model),
        hardware=Hardware(accelerator=device or STAND_IN, count=setup.devices or 1),
        runtime=LlamaCppRuntime(
            version=version,
            flags=LlamaCppFlags(
                n_gpu_layers=layers,
                ubatch_size=setup.n_ubatch,
                flash_attn=setup.flash_attn,
                swa_full=bool(_SWA_FULL.search(note)),
            ),
        ),
        formats=Formats(
            weights="gguf-f16", kv_cache=keys, kv_cache_values=None if values == keys else values
        ),
        workload=InferenceWorkload(context_tokens=context, concurrent_sequences=sequences),
    )
    case = resolve(request, release).case
    weights, by_file_size = _weights(row, release, case)
    return Setting(
        case=msgspec.structs.replace(case, weights=weights),
        device=device,
        on_processor=on_processor,
        overrides=bool(_OVERRIDES.search(note)),
        version_known=version is not None,
        by_file_size=by_file_size,
    )


def _weights(row: LocalRow, release: Release, case: InferenceCase) -> tuple[NamedWeights, bool]:
    """The catalog's mix for the file's type if the file's size agrees, else bits by the size.

    The type that a file prints is not its mix: re-quantized and dynamic files print the nearest.
    """
    named = _named(row, release)
    bits = _bits_of_file(row, case.model)
    if named is not None and (bits is None or _near(case, named, bits)):
        return named, False
    if bits is None:
        raise NoSizeError
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
    if record.weights is None or record.family != "gguf":
        return None
    return NamedWeights(record.id, record.family, record.weights)


def _bits_of_file(row: LocalRow, model: ModelArchitecture) -> float | None:
    size = row.observed.model_size_gib
    return 8 * size * GIB / model.parameters if size else row.observed.bpw


def _near(case: InferenceCase, named: NamedWeights, bits: float) -> bool:
    whole = file_bytes(msgspec.structs.replace(case, weights=named))
    return abs(8 * whole / case.model.parameters / bits - 1) < SAME_MIX


def file_bytes(case: InferenceCase) -> int:
    """The file's tensors: a tied embedding once."""
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    embedding, _ = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    whole = sum(layers[name] for name in case.model.order) + output_bytes(case)
    return whole if case.model.tied_embeddings else whole + embedding
