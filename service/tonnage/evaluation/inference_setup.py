"""From the setup of a serving engine's row to the engine's case.

A setting that no request can say is passed over where it adds to a quantity (draft models,
adapters) and noted where it redefines one (context parallelism, offloading). Development builds
count as the newest version of the catalog.
"""

import re
from typing import cast

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.release import Release
from tonnage.engine.case import InferenceCase
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.vllm_terms import Limits, batch_limits, cache_of_stage
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import VllmEra
from tonnage.engine.workload import InferenceWorkload, Parallelism
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    VllmRuntime,
)
from tonnage.plans.resolve import resolve

from .devices import STAND_IN, accelerator
from .rows import InferenceRow
from .versions import vllm_version

RAN = {
    "starts": True,
    "kv_too_small": False,
    "oom_load": False,
    "oom_profile": False,
    "oom_runtime": False,
}
_STATED_DEFAULT = re.compile(r"engine default (0\.\d+)(?!.*version not stated)")
_BLOCK = re.compile(r"block_size (\d+)")
_CONTEXT_PARALLEL = re.compile(r"(?:\bDCP |decode_context_parallel_size )(\d+)")
_OFFLOAD = re.compile(r"cpu_offload")
_OWN_PREDICTION_LAYERS = re.compile(r"\bMTP\b", re.IGNORECASE)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A row's setup as the engine takes it."""

    case: InferenceCase
    flags: VllmFlags
    limits: Limits
    caches: tuple[PagedCache, ...]
    version_known: bool
    device_known: bool
    context_parallel: int
    offloads: bool


def refusal(row: InferenceRow) -> str | None:
    if row.engine != "vllm":
        return f"the memory of {row.engine} is not modelled"
    if row.quality == "C":
        return "quality C is not scored"
    if not row.setup.weights_dtype:
        return "the format of the weights is not stated"
    if row.observed.outcome is not None and row.observed.outcome not in RAN:
        return f"the outcome {row.observed.outcome!r} is not known"
    return None


def setting_of(row: InferenceRow, release: Release, model: ModelArchitecture) -> Setting:
    setup, other = row.setup, row.setup.other or ""
    version = vllm_version(row.engine_version)
    device = accelerator(release, setup.gpu, None, setup.gpu_memory_gib_reported)
    model = _with_length(model, setup.max_model_len)
    if _OWN_PREDICTION_LAYERS.search(other):
        model = _with_prediction_layers(model)
    request = FitInferenceRequest(
        model=InlineModel(architecture=model),
        hardware=Hardware(accelerator=device or STAND_IN, count=_count(row)),
        runtime=VllmRuntime(version=version, flags=_flags(row)),
        formats=Formats(
            weights=_format(release, setup.weights_dtype or "auto"),
            kv_cache=setup.kv_cache_dtype or "auto",
        ),
        parallel=_parallel(row),
        workload=InferenceWorkload(
            context_tokens=setup.max_model_len or model.longest_context_tokens
        ),
    )
    case = resolve(request, release).case
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    found = _CONTEXT_PARALLEL.search(other)
    return Setting(
        case=case,
        flags=flags,
        limits=batch_limits(case, era, flags),
        caches=tuple(
            cache_of_stage(case, era, flags, stage) for stage in range(case.parallel.pipeline)
        ),
        version_known=row.engine_version is not None,
        device_known=device is not None,
        context_parallel=int(found.group(1)) if found else 1,
        offloads=bool(_OFFLOAD.search(other)),
    )


def _with_length(model: ModelArchitecture, length: int | None) -> ModelArchitecture:
    """A server that ran beyond the published length had it overridden."""
    if length is None or length <= model.longest_context_tokens:
        return model
    return msgspec.structs.replace(model, longest_context_tokens=length)


def _with_prediction_layers(model: ModelArchitecture) -> ModelArchitecture:
    extras = tuple(
        msgspec.structs.replace(extra, loaded=True) if extra.role == "prediction" else extra
        for extra in model.extras
    )
    return msgspec.structs.replace(model, extras=extras)


def _format(release: Release, name: str) -> str:
    """The row's name of a weight format, of which the catalog knows most as aliases."""
    short = name.removeprefix("gguf-")
    for candidate in (name, short):
        try:
            return release.resolve("formats", candidate).record.id
        except UnknownRecord:
            continue
    return name


def _flags(row: InferenceRow) -> VllmFlags:
    setup, other = row.setup, row.setup.other or ""
    stated = _STATED_DEFAULT.search(other)
    block = _BLOCK.search(other)
    utilization = setup.gpu_memory_utilization
    if utilization is None and stated:
        utilization = float(stated.group(1))
    return VllmFlags(
        gpu_memory_utilization=utilization,
        max_model_len=setup.max_model_len,
        max_num_seqs=setup.max_num_seqs,
        max_num_batched_tokens=setup.max_num_batched_tokens,
        block_size=int(block.group(1)) if block else None,
        enforce_eager=bool(setup.enforce_eager),
        use_flashinfer_sampler="FlashInfer sampler" in other,
        enable_prefix_caching="prefix caching off" not in other,
    )


def _parallel(row: InferenceRow) -> Parallelism:
    setup = row.setup
    return Parallelism(
        tensor=setup.tp or 1,
        pipeline=setup.pp or 1,
        data=setup.dp or 1,
        expert=setup.ep or 1,
    )


def _count(row: InferenceRow) -> int:
    return max(row.setup.gpus or 1, _parallel(row).ranks)
