"""Rows of serving engines: what would the engine have said of the same setup?

Only vLLM is modelled. A setting that no request can say is ignored where it adds to a quantity
(draft models, adapters) and leaves the quantity out where it redefines it.
"""

import re
from typing import cast

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.release import Release
from tonnage.engine.answer import InferenceFit
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import EngineError
from tonnage.engine.fit import fit_inference
from tonnage.engine.flags import VllmFlags
from tonnage.engine.hardware import Accelerator
from tonnage.engine.memory.pages import PagedCache
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.memory.runtimes.vllm_terms import (
    Limits,
    batch_limits,
    cache_of_stage,
    weights_of_stages,
)
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import VllmEra
from tonnage.engine.values import GIB
from tonnage.engine.workload import InferenceWorkload, Parallelism
from tonnage.plans.errors import UnknownName
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    VllmRuntime,
)
from tonnage.plans.resolve import resolve

from .architectures import Known
from .devices import STAND_IN, accelerator
from .results import Prediction, Result
from .rows import InferenceRow
from .scoring import ending
from .versions import vllm_version

RAN = {
    "starts": True,
    "kv_too_small": False,
    "oom_load": False,
    "oom_profile": False,
    "oom_runtime": False,
}
DEFAULT_BLOCK_TOKENS = 16

_STATED_DEFAULT = re.compile(r"engine default (0\.\d+)(?!.*version not stated)")
_BLOCK = re.compile(r"block_size (\d+)")
_CONTEXT_PARALLEL = re.compile(r"(?:\bDCP |decode_context_parallel_size )(\d+)")
_OFFLOAD = re.compile(r"cpu_offload")
_OWN_PREDICTION_LAYERS = re.compile(r"\bMTP\b", re.I)


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


def evaluate_inference(row: InferenceRow, release: Release, known: Known) -> Result:
    reason = _refusal(row)
    if reason is not None:
        return Result(id=row.id, skipped=reason)
    model = known.named(row.model, row.base_model)
    if model is None:
        return Result(id=row.id, skipped="the model's architecture is not known")
    try:
        setting = _setting(row, release, model)
        fit = fit_inference(setting.case)
    except (EngineError, UnknownName, msgspec.ValidationError) as problem:
        return Result(id=row.id, skipped=f"refused: {problem}")
    return _result(row, setting, fit)


def _refusal(row: InferenceRow) -> str | None:
    if row.engine != "vllm":
        return f"the memory of {row.engine} is not modelled"
    if row.quality == "C":
        return "quality C is not scored"
    if not row.setup.weights_dtype:
        return "the format of the weights is not stated"
    if row.observed.outcome is not None and row.observed.outcome not in RAN:
        return f"the outcome {row.observed.outcome!r} is not known"
    return None


def _setting(row: InferenceRow, release: Release, model: ModelArchitecture) -> Setting:
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
        enable_expert_parallel=(setup.ep or 1) > 1,
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


class _Scorer:
    """Collects the predictions of one row, and why others are missing."""

    def __init__(self) -> None:
        self.predictions: list[Prediction] = []
        self.left_out: dict[str, str] = {}

    def add(
        self,
        quantity: str,
        observed: float | None,
        predicted: tuple[float, float, float],
        scale: float | None = None,
    ) -> None:
        if observed is None:
            return
        if scale is None and observed == 0:
            self.left_out[quantity] = "zero was observed"
            return
        low, expected, high = predicted
        self.predictions.append(
            Prediction(
                quantity=quantity,
                predicted=expected,
                observed=observed,
                low=low,
                high=high,
                scale=scale,
            )
        )


def _result(row: InferenceRow, setting: Setting, fit: InferenceFit) -> Result:
    scorer = _Scorer()
    _score_weights(row, setting, scorer)
    _score_tokens(row, setting, scorer)
    _score_capacity(row, setting, fit, scorer)
    case, outcome = setting.case, row.observed.outcome
    judged = outcome is not None and setting.device_known and setting.version_known
    if not scorer.predictions and not judged:
        reason = next(iter(scorer.left_out.values()), "nothing that is predicted was observed")
        return Result(id=row.id, skipped=reason, left_out=scorer.left_out)
    return Result(
        id=row.id,
        groups=(
            "vllm",
            f"vllm since {case.era.since}" if setting.version_known else "vllm, version not stated",
            f"weights {case.weights.id}",
            "one rank" if case.parallel.ranks == 1 else "many ranks",
        ),
        predictions=tuple(scorer.predictions),
        verdict=fit.verdict,
        outcome=outcome,
        ending=ending(fit.verdict, RAN[outcome]) if judged and outcome is not None else None,
        left_out=scorer.left_out,
    )


def _score_weights(row: InferenceRow, setting: Setting, scorer: _Scorer) -> None:
    observed = row.observed.weights_gib_per_gpu
    if setting.offloads:
        scorer.left_out["weights_gib_per_gpu"] = "weights are offloaded to system memory"
        return
    heaviest = max(weights_of_stages(setting.case)) / GIB
    scorer.add("weights_gib_per_gpu", observed, (heaviest, heaviest, heaviest))


def _score_tokens(row: InferenceRow, setting: Setting, scorer: _Scorer) -> None:
    """Tokens (of hybrids: whole sequences) that the reported cache memory is said to hold."""
    quantity, observed = "kv_tokens_given_memory", row.observed
    memory = observed.available_kv_gib_per_gpu
    if memory is None or memory <= 0:
        return
    if setting.context_parallel > 1:
        scorer.left_out[quantity] = "decode context parallelism is not modelled"
        return
    if not setting.version_known and not _same_in_every_era(setting.case):
        scorer.left_out[quantity] = "the engine's version is not stated"
        return
    blocks = [int(memory * GIB) // cache.block_bytes for cache in setting.caches]
    if any(cache.group_count > 1 for cache in setting.caches):
        length = observed.max_concurrency_len or row.setup.max_model_len
        if observed.max_concurrency is None or length is None:
            scorer.left_out[quantity] = "a hybrid's concurrency is not reported"
            return
        held = min(_sequences(setting, stage, n, length) for stage, n in enumerate(blocks))
        scorer.add(quantity, observed.max_concurrency, (held, held, held))
        return
    seen = observed.kv_tokens
    if seen is None and observed.num_gpu_blocks is not None:
        seen = observed.num_gpu_blocks * (observed.block_size or DEFAULT_BLOCK_TOKENS)
    tokens = float(
        min(n * cache.block_tokens for n, cache in zip(blocks, setting.caches, strict=True))
    )
    scorer.add(quantity, seen, (tokens, tokens, tokens))


def _same_in_every_era(case: InferenceCase) -> bool:
    caches = [cache for found in case.model.layer_caches.values() for cache in found]
    return all(
        getattr(cache, "window_tokens", None) is None and getattr(cache, "heads", 0) > 1
        for cache in caches
    )


def _sequences(setting: Setting, stage: int, blocks: int, length: int) -> float:
    return blocks / setting.caches[stage].blocks(length, setting.limits.batched_tokens)


def _score_capacity(
    row: InferenceRow, setting: Setting, fit: InferenceFit, scorer: _Scorer
) -> None:
    """What is left for the cache, and the sequences that it holds, from the setup alone."""
    observed = row.observed
    share, concurrency = "available_kv_share_of_device", "max_concurrency"
    wanted = {
        share: observed.available_kv_gib_per_gpu,
        concurrency: observed.max_concurrency,
    }
    reason = _unknown_budget(setting)
    if reason is not None:
        scorer.left_out.update({name: reason for name, seen in wanted.items() if seen is not None})
        return
    pools = [ledger.free + ledger.amount("kv_cache") for ledger in fit.ledgers]
    tightest = min(pools, key=lambda pool: pool.expected)
    scorer.add(
        share,
        wanted[share],
        (tightest.low / GIB, tightest.expected / GIB, tightest.high / GIB),
        scale=_total(setting.case.accelerator),
    )
    length = observed.max_concurrency_len or row.setup.max_model_len
    if wanted[concurrency] is None or length is None:
        return
    if setting.context_parallel > 1:
        scorer.left_out[concurrency] = "decode context parallelism is not modelled"
        return
    low, expected, high = (
        min(
            _sequences(setting, stage, max(amount, 0) // cache.block_bytes, length)
            for stage, (amount, cache) in enumerate(
                zip(amounts, setting.caches, strict=True)
            )
        )
        for amounts in (
            [pool.low for pool in pools],
            [pool.expected for pool in pools],
            [pool.high for pool in pools],
        )
    )
    scorer.add(concurrency, wanted[concurrency], (low, expected, high))


def _unknown_budget(setting: Setting) -> str | None:
    if not setting.device_known:
        return "the device is not stated"
    if not setting.version_known:
        return "the engine's version is not stated"
    if setting.offloads:
        return "weights are offloaded to system memory"
    return None


def _total(device: Accelerator) -> float:
    return usable(device).expected_bytes / GIB
