"""From the setup of a local engine's row to the engine's case.

ik_llama.cpp, a fork, is taken as the llama.cpp that it came from, but for the latent attention that
it had first.
"""

import re

import msgspec

from tonnage.catalog.release import Release
from tonnage.engine.attention import LatentAttention
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import LlamaCppEra
from tonnage.engine.flags import Backend, LlamaCppFlags, OllamaFlags
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.memory.runtimes.ollama import as_llama_cpp
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import MIB
from tonnage.engine.workload import InferenceWorkload
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    LlamaCppRuntime,
    OllamaRuntime,
)
from tonnage.plans.resolve import resolve

from .devices import STAND_IN, accelerator
from .local_weights import weights_of_file
from .rows import LocalRow
from .versions import llama_cpp_version

ENGINES = ("llama.cpp", "ik_llama.cpp", "ollama")
RAN = {"fits": True, "partial_offload": True, "OOM": False}
NOT_JUDGED = ("cpu_only",)
DEFAULT_CONTEXT = 512
"""llama.cpp's --ctx-size in the builds of the rows that state none."""

_BACKENDS: tuple[tuple[Backend, re.Pattern[str]], ...] = (
    ("vulkan", re.compile(r"(?i)vulkan")),
    ("rocm", re.compile(r"(?i)\bhip\b|rocm")),
    ("metal", re.compile(r"(?i)\bmetal\b")),
    ("cuda", re.compile(r"(?i)cuda|nvidia")),
)
_SEEN = re.compile(r"sees (\d+) MiB free")
_MLA = re.compile(r"-mla (\d)")
_OVERRIDES = re.compile(r"overridden to CPU|-ot\b")
_SWA_FULL = re.compile(r"--swa-full")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    case: InferenceCase
    device: Accelerator | None
    on_processor: bool
    overrides: bool
    version_known: bool
    by_file_size: bool
    compute_known: bool
    """False for the fork's own kernels on a latent cache, whose buffers are not modelled."""


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
    device = _with_total(accelerator(release, setup.device, setup.device_memory_gib, None), note)
    sequences = setup.n_parallel or 1
    context = max((setup.n_ctx or DEFAULT_CONTEXT) // sequences, 1)
    if context > model.longest_context_tokens:
        model = msgspec.structs.replace(model, longest_context_tokens=context)
    layers = 0 if on_processor else setup.ngl
    if layers == 1 and setup.device and setup.device.startswith("Apple"):
        layers = None  # Metal of 2023 took the whole file with any number (ollama issue 434)
    version = llama_cpp_version(row.engine, row.build)
    keys = setup.cache_type_k or "auto"
    values = setup.cache_type_v
    request = FitInferenceRequest(
        model=InlineModel(architecture=model),
        hardware=Hardware(accelerator=device or STAND_IN, count=setup.devices or 1),
        runtime=_runtime(row, version, layers),
        formats=Formats(
            weights="gguf-f16", kv_cache=keys, kv_cache_values=None if values == keys else values
        ),
        workload=InferenceWorkload(context_tokens=context, concurrent_sequences=sequences),
    )
    case = resolve(request, release).case
    if row.engine == "ollama":
        case = as_llama_cpp(case)
    case, compute_known = _latent_of_fork(row, case)
    weights, by_file_size = weights_of_file(row, release, case)
    return Setting(
        case=msgspec.structs.replace(case, weights=weights),
        device=device,
        on_processor=on_processor,
        overrides=bool(_OVERRIDES.search(note)),
        version_known=(row.build if row.engine == "ollama" else version) is not None,
        by_file_size=by_file_size,
        compute_known=compute_known,
    )


def _runtime(
    row: LocalRow, version: str | None, layers: int | None
) -> LlamaCppRuntime | OllamaRuntime:
    """With the flags that the row states; Ollama's are those of the llama.cpp inside."""
    setup, backend = row.setup, backend_of(row)
    if row.engine == "ollama":
        options = OllamaFlags(
            num_gpu=layers,
            num_batch=setup.n_ubatch,
            flash_attention=setup.flash_attn,
            backend=backend,
        )
        return OllamaRuntime(version=row.build, flags=options)
    return LlamaCppRuntime(
        version=version,
        flags=LlamaCppFlags(
            n_gpu_layers=layers,
            ubatch_size=setup.n_ubatch,
            flash_attn=setup.flash_attn,
            swa_full=bool(_SWA_FULL.search(row.note or "")),
            backend=None if layers == 0 and setup.device == "CPU" else backend,
        ),
    )


def _latent_of_fork(row: LocalRow, case: InferenceCase) -> tuple[InferenceCase, bool]:
    """ik_llama.cpp's ``-mla``: 0 caches per head, 1 to 3 the latent; 1 without flash attention
    also its values, transposed (ik_llama.cpp pull requests 188, 246 and 473)."""
    stated = _MLA.search(row.note or "")
    latent = bool(row.extra and row.extra.mla) if stated is None else stated.group(1) != "0"
    if row.engine != "ik_llama.cpp" or not is_latent(case.model):
        return case, True
    assert isinstance(case.era, LlamaCppEra)
    transposed = stated is not None and stated.group(1) == "1" and not row.setup.flash_attn
    era = msgspec.structs.replace(
        case.era, latent_cache=latent, latent_values=latent and transposed
    )
    return msgspec.structs.replace(case, era=era), not latent


def backend_of(row: LocalRow) -> Backend | None:
    """What the row's log names its devices after, or its note names; None where neither does."""
    buffers = (row.extra and row.extra.compute_per_device) or {}
    text = f"{' '.join(buffers)} {row.note or ''} {row.setup.device or ''}"
    return next((name for name, found in _BACKENDS if found.search(text)), None)


def _with_total(device: Accelerator | None, note: str) -> Accelerator | None:
    """The device with the memory that its backend says is free, where the row has that."""
    seen = _SEEN.search(note)
    if device is None or seen is None:
        return device
    free = int(seen.group(1)) * MIB
    return msgspec.structs.replace(
        device,
        usable_memory=UsableMemory(
            low_bytes=free, expected_bytes=free, high_bytes=free, basis="measured"
        ),
    )
