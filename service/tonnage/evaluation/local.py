"""Rows of local engines: llama.cpp, and its fork where the fork accounts alike.

Buffers are sums over devices. A row that moves expert tensors to system memory does not say which.
"""

import re

import msgspec

from tonnage.catalog.release import Release
from tonnage.engine import calibration
from tonnage.engine.caches import TokenCache
from tonnage.engine.errors import EngineError
from tonnage.engine.estimate import Estimate
from tonnage.engine.memory.runtimes.llama_cpp import rank_ledgers
from tonnage.engine.memory.runtimes.llama_cpp_terms import (
    backend,
)
from tonnage.engine.memory.runtimes.verdict import worst
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import MIB
from tonnage.plans.errors import UnknownName

from .architectures import Known
from .local_buffers import (
    cache_bytes,
    compute_over_devices,
    embedding_in_doubt,
    total_of_buffers,
    weights_on_devices,
)
from .local_setup import (
    RAN,
    Setting,
    is_latent,
    refusal,
    setting_of,
)
from .local_weights import NoSizeError, file_bytes
from .mlx import evaluate_mlx
from .results import Result, Scorer
from .rows import LocalRow
from .scoring import ending

ESTIMATED = "Ollama prints its own estimate, not what is allocated"
FORKED = "the compute buffer of ik_llama.cpp's latent attention is not modelled"

_MEASURED = re.compile(r"measured|total VRAM|nvidia-smi", re.IGNORECASE)
_UNIFIED = re.compile(r"weights live in unified memory")


def evaluate_local(row: LocalRow, release: Release, known: Known) -> Result:
    if row.engine == "mlx-lm":
        return evaluate_mlx(row, release, known)
    reason = refusal(row)
    if reason is not None:
        return Result(id=row.id, skipped=reason)
    model = known.of_file(row.model, row.arch)
    if model is None:
        return Result(id=row.id, skipped="the model's architecture is not known")
    try:
        setting = setting_of(row, release, model)
        return _result(row, setting)
    except NoSizeError:
        return Result(
            id=row.id, skipped="the number format is not known and the file's size is not stated"
        )
    except (EngineError, UnknownName, msgspec.ValidationError) as problem:
        return Result(id=row.id, skipped=f"refused: {problem}")


def _result(row: LocalRow, setting: Setting) -> Result:
    scorer = Scorer()
    _score_weights(row, setting, scorer)
    _score_cache(row, setting, scorer)
    _score_compute(row, setting, scorer)
    _score_total(row, setting, scorer)
    outcome = row.observed.outcome
    reason = _unplaced(row, setting)
    if setting.device is None:
        reason = "the device is not one of the catalog"
    elif not setting.compute_known:
        reason = FORKED
    judged = outcome in RAN and reason is None
    if outcome in RAN and reason is not None:
        scorer.left_out["outcome"] = reason
    if not scorer.predictions and not judged:
        reason = next(iter(scorer.left_out.values()), "nothing that is predicted was observed")
        return Result(id=row.id, skipped=reason, left_out=scorer.left_out)
    verdict = worst(rank_ledgers(setting.case)) if judged else None
    case = setting.case
    era = f"{row.engine} since {case.era.since}"
    return Result(
        id=row.id,
        groups=(
            row.engine,
            era if setting.version_known else f"{row.engine}, build not stated",
            "weights by the file's size" if setting.by_file_size else f"weights {case.weights.id}",
            "one device" if case.count == 1 else "many devices",
            _attention(row.setup.flash_attn),
        ),
        predictions=tuple(scorer.predictions),
        verdict=verdict,
        outcome=outcome,
        ending=ending(verdict, RAN[outcome]) if verdict and outcome is not None else None,
        left_out=scorer.left_out,
    )


def _attention(stated: bool | None) -> str:
    if stated is None:
        return "flash attention not stated"
    return f"flash attention {'on' if stated else 'off'}"


def _unplaced(row: LocalRow, setting: Setting) -> str | None:
    """Why it is not said which weights are on the accelerators; None where it is."""
    if setting.overrides:
        return "which tensors are moved to system memory is not stated"
    if row.observed.outcome == "partial_offload" and row.setup.ngl is None:
        return "how many layers are offloaded is not stated"
    return None


ROUNDING_MIB = 0.005
"""Logs print hundredths of a MiB for each buffer."""


def _add(
    scorer: Scorer,
    quantity: str,
    observed: float | None,
    predicted: tuple[float, float, float],
    buffers: int = 1,
) -> None:
    """Bytes against MiB, the sum of so many printed buffers; a buffer of nothing is none."""
    low, expected, high = predicted
    scorer.add(
        quantity,
        observed or None,
        (low / MIB, expected / MIB, high / MIB),
        rounding=buffers * ROUNDING_MIB,
    )


def _score_weights(row: LocalRow, setting: Setting, scorer: Scorer) -> None:
    observed = row.observed
    reason = _unplaced(row, setting)
    if reason is not None:
        scorer.left_out["weights_mib"] = reason
        return
    if observed.weights_gpu_mib:
        amount = weights_on_devices(setting.case)
        _add(scorer, "weights_mib", observed.weights_gpu_mib, (amount, amount, amount))
    elif setting.on_processor or _UNIFIED.search(row.note or ""):
        amount = file_bytes(setting.case)
        _add(scorer, "weights_mib", observed.weights_cpu_mib, (amount, amount, amount))


def _score_cache(row: LocalRow, setting: Setting, scorer: Scorer) -> None:
    if row.setup.n_ctx is None:
        return
    if not setting.version_known and _kept_by_era(setting.case.model):
        scorer.left_out["kv_mib"] = "the build is not stated"
        return
    amount, _ = cache_bytes(setting.case)
    _add(scorer, "kv_mib", row.observed.kv_mib, (amount, amount, amount))


def _kept_by_era(model: ModelArchitecture) -> bool:
    """What the cache keeps of latent and sliding layers changed between builds."""
    caches = (cache for found in model.layer_caches.values() for cache in found)
    return is_latent(model) or any(
        isinstance(cache, TokenCache) and cache.window_tokens is not None for cache in caches
    )


def _score_compute(row: LocalRow, setting: Setting, scorer: Scorer) -> None:
    if row.setup.n_ctx is None:
        return
    if setting.overrides:
        scorer.left_out["compute_mib"] = "which tensors are moved to system memory is not stated"
        return
    if not setting.compute_known or row.engine == "ollama":
        scorer.left_out["compute_mib"] = ESTIMATED if row.engine == "ollama" else FORKED
        return
    amount = compute_over_devices(setting.case)
    _add(
        scorer,
        "compute_mib",
        row.observed.compute_mib,
        (amount.low, amount.expected, amount.high),
        setting.case.count,
    )


def _score_total(row: LocalRow, setting: Setting, scorer: Scorer) -> None:
    """The buffers together; what a device reports as used also has the backend's context."""
    observed = row.observed
    if row.setup.n_ctx is None or observed.outcome not in ("fits", "partial_offload"):
        return
    reason = _unplaced(row, setting) or (None if setting.compute_known else FORKED)
    if row.engine == "ollama":
        reason = ESTIMATED
    if reason is not None:
        scorer.left_out["total_mib"] = reason
        return
    case = setting.case
    measured = bool(_MEASURED.search(row.note or ""))
    amount = total_of_buffers(case, measured=measured)
    if setting.by_file_size:
        amount += embedding_in_doubt(case)
    if measured:
        context = Estimate(*calibration.LLAMA_CPP_CONTEXT_BYTES[backend(case)])
        amount += context.times(case.count)
    predicted = (amount.low, amount.expected, amount.high)
    _add(scorer, "total_mib", observed.required_mib, predicted, 3 * case.count)
