"""Rows of serving engines: what would the engine have said of the same setup?

SGLang, TensorRT-LLM and TGI print the same quantities as vLLM under other names.
"""

import msgspec

from tonnage.catalog.release import Release
from tonnage.engine.answer import InferenceFit
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import EngineError
from tonnage.engine.fit import cache_pools, fit_inference, inference_verdict
from tonnage.engine.hardware import Accelerator
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.values import GIB
from tonnage.plans.errors import UnknownName

from .architectures import Known
from .inference_setup import RAN, Setting, refusal, setting_of
from .results import Result, Scorer
from .rows import InferenceRow
from .scoring import ending

DEFAULT_BLOCK_TOKENS = 16
UNSTATED_DRAFT = "the draft model is not described"


def evaluate_inference(row: InferenceRow, release: Release, known: Known) -> Result:
    reason = refusal(row)
    if reason is not None:
        return Result(id=row.id, skipped=reason)
    model = known.named(row.model, row.base_model)
    if model is None:
        return Result(id=row.id, skipped="the model's architecture is not known")
    try:
        record = known.record(row.model, row.base_model)
        setting = setting_of(row, release, model, record)
        fit = fit_inference(setting.case)
    except (EngineError, UnknownName, msgspec.ValidationError) as problem:
        return Result(id=row.id, skipped=f"refused: {problem}")
    return _result(row, setting, fit)


def _result(row: InferenceRow, setting: Setting, fit: InferenceFit) -> Result:
    scorer = Scorer()
    _score_weights(row, setting, fit, scorer)
    _score_tokens(row, setting, scorer)
    _score_capacity(row, setting, scorer)
    case, outcome = setting.case, row.observed.outcome
    judged = outcome is not None and setting.device_known and setting.version_known
    if judged and _depends_on_the_length(row, case, fit):
        judged = False
        scorer.left_out["outcome"] = "the longest request is not stated, and decides"
    if not scorer.predictions and not judged:
        reason = next(iter(scorer.left_out.values()), "nothing that is predicted was observed")
        return Result(id=row.id, skipped=reason, left_out=scorer.left_out)
    return Result(
        id=row.id,
        groups=(
            row.engine,
            f"{row.engine} since {case.era.since}"
            if row.engine_version is not None
            else f"{row.engine}, version not stated",
            f"weights {case.weights.id}",
            "one rank" if case.parallel.ranks == 1 else "many ranks",
        ),
        predictions=tuple(scorer.predictions),
        verdict=fit.verdict,
        outcome=outcome,
        ending=ending(fit.verdict, RAN[outcome]) if judged and outcome is not None else None,
        left_out=scorer.left_out,
    )


def _depends_on_the_length(row: InferenceRow, case: InferenceCase, fit: InferenceFit) -> bool:
    """Whether a server whose length is not stated would start with a short one alone."""
    if row.setup.max_model_len is not None or fit.verdict != "does_not_fit":
        return False
    shortest = msgspec.structs.replace(case.workload, context_tokens=1)
    return inference_verdict(msgspec.structs.replace(case, workload=shortest)) != "does_not_fit"


def _score_weights(row: InferenceRow, setting: Setting, fit: InferenceFit, scorer: Scorer) -> None:
    observed = row.observed.weights_gib_per_gpu
    if setting.unstated_draft:
        scorer.left_out["weights_gib_per_gpu"] = UNSTATED_DRAFT
        return
    amounts = [ledger.amount("weights") for ledger in fit.ledgers]
    heaviest = max(amounts, key=lambda weights: weights.expected)
    scorer.add(
        "weights_gib_per_gpu",
        observed,
        (heaviest.low / GIB, heaviest.expected / GIB, heaviest.high / GIB),
    )


def _score_tokens(row: InferenceRow, setting: Setting, scorer: Scorer) -> None:
    """Tokens (of hybrids: whole sequences) that the reported cache memory is said to hold."""
    quantity, observed = "kv_tokens_given_memory", row.observed
    memory = observed.available_kv_gib_per_gpu
    if memory is None or memory <= 0:
        return
    if setting.unstated_draft:
        scorer.left_out[quantity] = UNSTATED_DRAFT
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
    return blocks / setting.caches[stage].blocks(length, setting.batched_tokens)


def _score_capacity(row: InferenceRow, setting: Setting, scorer: Scorer) -> None:
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
    pools = [pool.printed for pool in cache_pools(setting.case)]
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
    low, expected, high = (
        min(
            _sequences(setting, stage, max(amount, 0) // cache.block_bytes, length)
            for stage, (amount, cache) in enumerate(zip(amounts, setting.caches, strict=True))
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
    return UNSTATED_DRAFT if setting.unstated_draft else None


def _total(device: Accelerator) -> float:
    return usable(device).expected_bytes / GIB
