"""Rows of local engines: llama.cpp, and its fork where the fork accounts alike.

Buffers are sums over devices. ik_llama.cpp keeps latent attention in ways of its own, and neither
says which expert tensors an override moves to system memory.
"""

import re
from typing import cast

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import FormatRecord
from tonnage.catalog.release import Release
from tonnage.engine import calibration
from tonnage.engine.attention import LatentAttention
from tonnage.engine.caches import StateCache, TokenCache
from tonnage.engine.case import InferenceCase, NamedWeights
from tonnage.engine.errors import EngineError
from tonnage.engine.fit import fit_inference
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.hardware import Accelerator
from tonnage.engine.memory.kv_cache import state_bytes
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    STATE_BITS,
    compute_bytes,
    layer_cache_bytes,
    output_bytes,
    split,
)
from tonnage.engine.memory.weights import layer_bytes, vocabulary_bytes
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import RoleBits, WeightEncoding
from tonnage.engine.values import GIB, MIB
from tonnage.engine.workload import InferenceWorkload
from tonnage.plans.errors import UnknownName
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    LlamaCppRuntime,
)
from tonnage.plans.resolve import resolve

from .architectures import Known
from .devices import STAND_IN, accelerator
from .results import Prediction, Result
from .rows import LocalRow
from .scoring import ending
from .versions import llama_cpp_version

ENGINES = ("llama.cpp", "ik_llama.cpp")
RAN = {"fits": True, "partial_offload": True, "OOM": False}
NOT_JUDGED = ("cpu_only",)
DEFAULT_CONTEXT = 512
"""llama.cpp's --ctx-size in the builds of the rows that state none."""
SAME_MIX = 0.04
"""A file whose size is this near to what its format gives is of that format."""
LAYERS_OF_ALL = 10**6

_OVERRIDES = re.compile(r"overridden to CPU|-ot\b")
_MEASURED = re.compile(r"measured|total VRAM|nvidia-smi", re.I)
_SWA_FULL = re.compile(r"--swa-full")
_UNIFIED = re.compile(r"weights live in unified memory")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    case: InferenceCase
    device: Accelerator | None
    on_processor: bool
    overrides: bool
    version_known: bool
    by_file_size: bool


def evaluate_local(row: LocalRow, release: Release, known: Known) -> Result:
    reason = _refusal(row)
    if reason is not None:
        return Result(id=row.id, skipped=reason)
    model = known.of_file(row.model, row.arch)
    if model is None:
        return Result(id=row.id, skipped="the model's architecture is not known")
    if row.engine == "ik_llama.cpp" and _is_latent(model):
        return Result(id=row.id, skipped="ik_llama.cpp's latent attention is not modelled")
    try:
        setting = _setting(row, release, model)
        return _result(row, setting)
    except (EngineError, UnknownName, msgspec.ValidationError) as problem:
        return Result(id=row.id, skipped=f"refused: {problem}")


def _refusal(row: LocalRow) -> str | None:
    if row.engine not in ENGINES:
        return f"the memory of {row.engine} is not modelled"
    if row.quality == "C":
        return "quality C is not scored"
    if row.observed.outcome is not None and row.observed.outcome not in (*RAN, *NOT_JUDGED):
        return f"the outcome {row.observed.outcome!r} is not known"
    return None


def _is_latent(model: ModelArchitecture) -> bool:
    return any(
        isinstance(mixer, LatentAttention) for layer in model.layers for mixer in layer.mixers
    )


def _setting(row: LocalRow, release: Release, model: ModelArchitecture) -> Setting:
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
        raise UnknownName("formats", row.gguf_quant or "none stated", (), "/formats/weights")
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


class _Scorer:
    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.left_out: dict[str, str] = {}

    def add(
        self, quantity: str, observed: float | None, predicted: tuple[float, float, float]
    ) -> None:
        """Bytes against MiB."""
        if not observed:
            return
        low, expected, high = predicted
        self.predictions.append(
            Prediction(
                quantity=quantity,
                predicted=expected / MIB,
                observed=observed,
                low=low / MIB,
                high=high / MIB,
            )
        )


def _result(row: LocalRow, setting: Setting) -> Result:
    scorer = _Scorer()
    _score_weights(row, setting, scorer)
    _score_cache(row, setting, scorer)
    _score_compute(row, setting, scorer)
    _score_total(row, setting, scorer)
    outcome = row.observed.outcome
    judged = outcome in RAN and setting.device is not None and not _unplaced(row, setting)
    if outcome in RAN and not judged:
        reason = "the device is not one of the catalog" if setting.device is None else None
        scorer.left_out["outcome"] = reason or cast(str, _unplaced(row, setting))
    if not scorer.predictions and not judged:
        reason = next(iter(scorer.left_out.values()), "nothing that is predicted was observed")
        return Result(id=row.id, skipped=reason, left_out=scorer.left_out)
    verdict = fit_inference(setting.case).verdict if judged else None
    case = setting.case
    era = f"{row.engine} since {case.era.since}"
    return Result(
        id=row.id,
        groups=(
            row.engine,
            era if setting.version_known else f"{row.engine}, build not stated",
            "weights by the file's size" if setting.by_file_size else f"weights {case.weights.id}",
            "one device" if case.count == 1 else "many devices",
            "attention not known" if row.setup.flash_attn is None
            else f"flash attention {'on' if row.setup.flash_attn else 'off'}",
        ),
        predictions=tuple(scorer.predictions),
        verdict=verdict,
        outcome=outcome,
        ending=ending(verdict, RAN[outcome]) if verdict and outcome is not None else None,
        left_out=scorer.left_out,
    )


def _unplaced(row: LocalRow, setting: Setting) -> str | None:
    """Why it is not said which weights are on the accelerators; None where it is."""
    if setting.overrides:
        return "which tensors are moved to system memory is not stated"
    if row.observed.outcome == "partial_offload" and row.setup.ngl is None:
        return "how many layers are offloaded is not stated"
    return None


def weights_on_devices(case: InferenceCase) -> int:
    flags = cast(LlamaCppFlags, case.flags)
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    wanted = LAYERS_OF_ALL if flags.n_gpu_layers is None else flags.n_gpu_layers
    placed = sum(
        layers[name] for names in split(case.model, wanted, case.count) for name in names
    )
    return placed + (output_bytes(case) if wanted > case.model.layer_count else 0)


def _score_weights(row: LocalRow, setting: Setting, scorer: _Scorer) -> None:
    observed = row.observed
    reason = _unplaced(row, setting)
    if reason is not None:
        scorer.left_out["weights_mib"] = reason
        return
    if observed.weights_gpu_mib:
        amount = weights_on_devices(setting.case)
        scorer.add("weights_mib", observed.weights_gpu_mib, (amount, amount, amount))
    elif setting.on_processor or _UNIFIED.search(row.note or ""):
        amount = file_bytes(setting.case)
        scorer.add("weights_mib", observed.weights_cpu_mib, (amount, amount, amount))


def cache_bytes(case: InferenceCase) -> tuple[int, int]:
    """Of token caches (the KV buffer) and of states (a buffer of its own), over all layers."""
    context, sequences = case.workload.context_tokens, case.workload.concurrent_sequences
    whole = states = 0
    for name, count in case.model.layer_counts.items():
        whole += count * layer_cache_bytes(case, name, context, sequences)
        for cache in case.model.layer_caches[name]:
            if isinstance(cache, StateCache):
                states += count * sequences * state_bytes(cache, 1, STATE_BITS, STATE_BITS)
    return whole - states, states


def _score_cache(row: LocalRow, setting: Setting, scorer: _Scorer) -> None:
    if row.setup.n_ctx is None:
        return
    if not setting.version_known and _kept_by_era(setting.case.model):
        scorer.left_out["kv_mib"] = "the build is not stated"
        return
    amount, _ = cache_bytes(setting.case)
    scorer.add("kv_mib", row.observed.kv_mib, (amount, amount, amount))


def _kept_by_era(model: ModelArchitecture) -> bool:
    """What the cache keeps of latent and sliding layers changed between builds."""
    caches = (cache for found in model.layer_caches.values() for cache in found)
    return _is_latent(model) or any(
        isinstance(cache, TokenCache) and cache.window_tokens is not None for cache in caches
    )


def compute_over_devices(case: InferenceCase) -> int:
    tokens = case.workload.context_tokens * case.workload.concurrent_sequences
    return case.count * compute_bytes(case, tokens)


def _score_compute(row: LocalRow, setting: Setting, scorer: _Scorer) -> None:
    if row.setup.n_ctx is None:
        return
    if setting.overrides:
        scorer.left_out["compute_mib"] = "which tensors are moved to system memory is not stated"
        return
    amount = compute_over_devices(setting.case)
    low, expected, high = (amount * ratio for ratio in calibration.LLAMA_CPP_COMPUTE_RATIO)
    scorer.add("compute_mib", row.observed.compute_mib, (low, expected, high))


def _score_total(row: LocalRow, setting: Setting, scorer: _Scorer) -> None:
    """The buffers together; what a device reports as used also has the backend's context."""
    observed = row.observed
    if row.setup.n_ctx is None or observed.outcome not in ("fits", "partial_offload"):
        return
    reason = _unplaced(row, setting)
    if reason is not None:
        scorer.left_out["total_mib"] = reason
        return
    case = setting.case
    cached, states = cache_bytes(case)
    fixed = weights_on_devices(case) + cached + states
    compute = compute_over_devices(case)
    measured = _MEASURED.search(row.note or "")
    contexts = calibration.LLAMA_CPP_CONTEXT_BYTES if measured else (0, 0, 0)
    low, expected, high = (
        fixed + compute * ratio + case.count * context
        for ratio, context in zip(calibration.LLAMA_CPP_COMPUTE_RATIO, contexts, strict=True)
    )
    scorer.add("total_mib", observed.required_mib, (low, expected, high))
