"""From the setup of a serving engine's row to the engine's case.

A row that names no device, or no version, is laid out on a stand-in and marked so, and only what
does not depend on it is scored. The row's arguments are read beside this, in ``inference_flags``.
"""

import re

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import ModelRecord
from tonnage.catalog.release import Release
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.fit import cache_pools
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.vllm_limits import Limits, batch_limits
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.workload import InferenceWorkload, Parallelism
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    RuntimeChoice,
    SglangRuntime,
)
from tonnage.plans.resolve import resolve

from .devices import STAND_IN, accelerator
from .inference_flags import ENGINES, runtime_of
from .rows import InferenceRow

RAN = {
    "starts": True,
    "kv_too_small": False,
    "oom_load": False,
    "oom_profile": False,
    "oom_runtime": False,
}
_CACHE_OF_CHECKPOINT = re.compile(r"fp8 KV from the checkpoint")
_QUANTIZED_AHEAD = re.compile(r"bnb-4bit")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A row's setup as the engine takes it."""

    case: InferenceCase
    limits: Limits | None
    """Of vLLM, whose windowed layers keep a batch beside their window."""
    caches: tuple[PagedCache, ...]
    version_known: bool
    device_known: bool
    unstated_draft: bool
    """Tokens are drafted by a model of which the row says nothing."""

    @property
    def batched_tokens(self) -> int:
        return self.limits.batched_tokens if self.limits else 0


def refusal(row: InferenceRow) -> str | None:
    if row.engine not in ENGINES:
        return f"the memory of {row.engine} is not modelled"
    if row.quality == "C":
        return "quality C is not scored"
    if not row.setup.weights_dtype:
        return "the format of the weights is not stated"
    if row.observed.outcome is not None and row.observed.outcome not in RAN:
        return f"the outcome {row.observed.outcome!r} is not known"
    return None


def setting_of(
    row: InferenceRow,
    release: Release,
    model: ModelArchitecture,
    model_record: ModelRecord | None = None,
) -> Setting:
    setup = row.setup
    device = accelerator(release, setup.gpu, None, setup.gpu_memory_gib_reported)
    model = _with_length(model, setup.max_model_len)
    runtime, unstated = runtime_of(row, model)
    request = FitInferenceRequest(
        model=_model(row, model, model_record),
        hardware=Hardware(accelerator=device or STAND_IN, count=_count(row)),
        runtime=runtime,
        formats=Formats(
            weights=_weight_format(release, row, model_record),
            kv_cache=_cache_format(row),
        ),
        parallel=_parallel(row),
        workload=_workload(row, model),
    )
    case = resolve(request, release).case
    limits = None
    if isinstance(case.era, VllmEra) and isinstance(case.flags, VllmFlags):
        limits = batch_limits(case, case.era, case.flags)
    return Setting(
        case=case,
        limits=limits,
        caches=tuple(pool.cache for pool in cache_pools(case)),
        version_known=row.engine_version is not None or _says_its_share(runtime),
        device_known=device is not None,
        unstated_draft=unstated,
    )


def _says_its_share(runtime: RuntimeChoice) -> bool:
    """A pool of a stated share of the memory is the same in every version."""
    return isinstance(runtime, SglangRuntime) and runtime.flags.mem_fraction_static is not None


def _workload(row: InferenceRow, model: ModelArchitecture) -> InferenceWorkload:
    """What a start needs room for: SGLang starts with any pool, the others with a whole request.

    A server that ran out of memory while it served did so under load: of all the sequences that
    its own cache was said to hold.
    """
    length = row.setup.max_model_len or model.longest_context_tokens
    if row.engine == "sglang":
        length = 1
    sequences = 1
    if row.observed.outcome == "oom_runtime" and row.observed.kv_tokens:
        sequences = max(int(row.observed.kv_tokens) // length, 1)
    return InferenceWorkload(context_tokens=length, concurrent_sequences=sequences)


def _with_length(model: ModelArchitecture, length: int | None) -> ModelArchitecture:
    """A server that ran beyond the published length had it overridden."""
    if length is None or length <= model.longest_context_tokens:
        return model
    return msgspec.structs.replace(model, longest_context_tokens=length)


def _model(
    row: InferenceRow, architecture: ModelArchitecture, record: ModelRecord | None
) -> InlineModel:
    """With the checkpoint's own encoding, where the row names that very checkpoint."""
    if record is None or record.checkpoint_encoding is None:
        return InlineModel(architecture=architecture)
    return InlineModel(
        architecture=architecture,
        checkpoint_format=record.checkpoint_format,
        checkpoint_encoding=record.checkpoint_encoding if row.model != row.base_model else None,
    )


def _weight_format(release: Release, row: InferenceRow, model: ModelRecord | None) -> str:
    name = row.setup.weights_dtype or "auto"
    if name == "int4" and model is not None and "4" in model.checkpoint_format:
        return model.checkpoint_format
    if name == "bnb-nf4" and _QUANTIZED_AHEAD.search(row.model or ""):
        return "bnb-nf4-double"
    return _format(release, name)


def _cache_format(row: InferenceRow) -> str:
    if _CACHE_OF_CHECKPOINT.search(row.note or ""):
        return "fp8"
    return row.setup.kv_cache_dtype or "auto"


def _format(release: Release, name: str) -> str:
    """The row's name of a weight format, of which the catalog knows most as aliases."""
    short = name.removeprefix("gguf-")
    for candidate in (name, short):
        try:
            return release.resolve("formats", candidate).record.id
        except UnknownRecord:
            continue
    return name


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
