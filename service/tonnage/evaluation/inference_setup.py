"""From the setup of a serving engine's row to the engine's case.

A setting that no request can say is passed over where it adds to a quantity (draft models,
adapters) and noted where it redefines one (context parallelism, offloading). Development builds
count as the newest version of the catalog.
"""

import re
from typing import cast

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import ModelRecord
from tonnage.catalog.release import Release
from tonnage.engine.case import InferenceCase
from tonnage.engine.flags import Speculative, VllmFlags
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.prediction import prediction_layers
from tonnage.engine.memory.runtimes.vllm_cache import cache_of_stage
from tonnage.engine.memory.runtimes.vllm_limits import Limits, batch_limits
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import VllmEra
from tonnage.engine.values import GIB
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
_OFFLOAD = re.compile(r"cpu_offload_gb (\d+(?:\.\d+)?)")
_OWN_PREDICTION_LAYERS = re.compile(r"\bMTP\b(?:,? (\d+) tokens)?", re.IGNORECASE)
_DRAFT = re.compile(r"speculative: (?!mtp)(\w+)", re.IGNORECASE)
_DRAFT_WEIGHTS = re.compile(r"base [\d.]+ \+ draft ([\d.]+)")
_LORA = re.compile(r"max_loras (\d+)")
_LORA_RANK = re.compile(r"max_lora_rank (\d+)")
_CACHE_OF_CHECKPOINT = re.compile(r"fp8 KV from the checkpoint")
_QUANTIZED_AHEAD = re.compile(r"bnb-4bit")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A row's setup as the engine takes it."""

    case: InferenceCase
    flags: VllmFlags
    limits: Limits
    caches: tuple[PagedCache, ...]
    version_known: bool
    device_known: bool
    unstated_draft: bool
    """Tokens are drafted by a model of which the row says nothing."""


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


def setting_of(
    row: InferenceRow,
    release: Release,
    model: ModelArchitecture,
    model_record: ModelRecord | None = None,
) -> Setting:
    setup, other = row.setup, row.setup.other or ""
    version = vllm_version(row.engine_version)
    device = accelerator(release, setup.gpu, None, setup.gpu_memory_gib_reported)
    model = _with_length(model, setup.max_model_len)
    drafting, unstated = _drafting(other, model)
    request = FitInferenceRequest(
        model=_model(row, model, model_record),
        hardware=Hardware(accelerator=device or STAND_IN, count=_count(row)),
        runtime=VllmRuntime(
            version=version,
            flags=msgspec.structs.replace(_flags(row), speculative_config=drafting),
        ),
        formats=Formats(
            weights=_weight_format(release, row, model_record),
            kv_cache=_cache_format(row),
        ),
        parallel=_parallel(row),
        workload=InferenceWorkload(
            context_tokens=setup.max_model_len or model.longest_context_tokens
        ),
    )
    case = resolve(request, release).case
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    return Setting(
        case=case,
        flags=flags,
        limits=batch_limits(case, era, flags),
        caches=tuple(
            cache_of_stage(case, era, flags, stage) for stage in range(case.parallel.pipeline)
        ),
        version_known=row.engine_version is not None,
        device_known=device is not None,
        unstated_draft=unstated,
    )


def _with_length(model: ModelArchitecture, length: int | None) -> ModelArchitecture:
    """A server that ran beyond the published length had it overridden."""
    if length is None or length <= model.longest_context_tokens:
        return model
    return msgspec.structs.replace(model, longest_context_tokens=length)


def _drafting(other: str, model: ModelArchitecture) -> tuple[Speculative | None, bool]:
    """How tokens are drafted ahead, and whether the row leaves open what with."""
    own = _OWN_PREDICTION_LAYERS.search(other)
    if own and prediction_layers(model):
        return Speculative(method="mtp", num_speculative_tokens=int(own.group(1) or 1)), False
    weights = _DRAFT_WEIGHTS.search(other)
    if weights:
        held = round(float(weights.group(1)) * GIB)
        return Speculative(method="medusa", draft_weights_bytes=held), False
    named = _DRAFT.search(other)
    if named and named.group(1) == "ngram":
        return Speculative(method="ngram"), False
    return None, bool(named) and "draft model" not in other


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
        decode_context_parallel_size=_number(_CONTEXT_PARALLEL, other) or 1,
        cpu_offload_gb=_number(_OFFLOAD, other) or 0,
        language_model_only="language_model_only" in other,
        enable_lora=bool(_LORA.search(other)),
        max_loras=_number(_LORA, other) or 1,
        max_lora_rank=_number(_LORA_RANK, other) or 16,
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(float(found.group(1))) if found else 0


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
