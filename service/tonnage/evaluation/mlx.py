"""Rows of mlx-lm: the peak that it prints, and whether it ran."""

import re

import msgspec

from tonnage.catalog.release import Release
from tonnage.engine.case import InferenceCase, NamedWeights
from tonnage.engine.errors import EngineError
from tonnage.engine.estimate import Estimate
from tonnage.engine.fit import inference_verdict
from tonnage.engine.memory.runtimes.mlx import rank_ledgers
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import RoleBits, WeightEncoding
from tonnage.engine.values import MIB
from tonnage.engine.workload import InferenceWorkload
from tonnage.plans.errors import UnknownName
from tonnage.plans.requests import (
    FitInferenceRequest,
    Formats,
    Hardware,
    InlineModel,
    MlxRuntime,
)
from tonnage.plans.resolve import resolve

from .architectures import Known
from .devices import STAND_IN, accelerator
from .results import Result, Scorer
from .rows import LocalRow
from .scoring import ending

RAN = {"fits": True, "OOM": False}

_AFFINE = re.compile(r"^(\d)bit(?: g(\d+))?$")
_PROMPT = re.compile(r"prompt ([\d.]+)(K?) tokens \+ (\d+) generated")


def evaluate_mlx(row: LocalRow, release: Release, known: Known) -> Result:
    if row.quality == "C":
        return Result(id=row.id, skipped="quality C is not scored")
    model = known.of_file(row.model, row.arch)
    weights, context = _weights(row.gguf_quant), _context(row)
    if model is None:
        return Result(id=row.id, skipped="the model's architecture is not known")
    if weights is None or context is None:
        return Result(id=row.id, skipped="the number format or the context is not stated")
    try:
        case = _case(row, release, model, weights, context)
        return _result(row, case)
    except (EngineError, UnknownName, msgspec.ValidationError) as problem:
        return Result(id=row.id, skipped=f"refused: {problem}")


def _weights(name: str | None) -> NamedWeights | None:
    """Affine bits and a scale and bias of 16 bits for each group; or the float formats."""
    plain, large = RoleBits(norm=16, bias=16, encoder=16), 8.5
    if name == "bf16":
        return NamedWeights("bf16", "float", WeightEncoding(bits_per_weight=16))
    if name == "MXFP4":
        experts = msgspec.structs.replace(plain, expert_gate_up=4.25, expert_down=4.25)
        encoding = WeightEncoding(bits_per_weight=large, except_roles=experts)
        return NamedWeights("MXFP4, the rest in 8 bits", "mlx", encoding)
    found = _AFFINE.match(name or "")
    if found is None:
        return None
    bits = int(found.group(1)) + 32 / int(found.group(2) or 64)
    return NamedWeights(
        f"mlx {name}", "mlx", WeightEncoding(bits_per_weight=bits, except_roles=plain)
    )


def _context(row: LocalRow) -> int | None:
    if row.setup.n_ctx is not None:
        return row.setup.n_ctx
    found = _PROMPT.search(row.note or "")
    if found is None:
        return None
    return int(float(found.group(1)) * (1000 if found.group(2) else 1)) + int(found.group(3))


def _case(
    row: LocalRow,
    release: Release,
    model: ModelArchitecture,
    weights: NamedWeights,
    context: int,
) -> InferenceCase:
    device = accelerator(release, row.setup.device, row.setup.device_memory_gib, None)
    request = FitInferenceRequest(
        model=InlineModel(architecture=model),
        hardware=Hardware(accelerator=device or STAND_IN),
        runtime=MlxRuntime(version=row.build),
        formats=Formats(weights="bf16"),
        workload=InferenceWorkload(context_tokens=context, concurrent_sequences=1),
    )
    return msgspec.structs.replace(resolve(request, release).case, weights=weights)


def _result(row: LocalRow, case: InferenceCase) -> Result:
    scorer, (held,) = Scorer(), rank_ledgers(case)
    total = Estimate.exact(0)
    for name in ("weights", "kv_cache", "activations"):
        total += held.amount(name)
    if row.observed.outcome == "fits":
        predicted = (total.low / MIB, total.expected / MIB, total.high / MIB)
        scorer.add("total_mib", row.observed.required_mib, predicted)
    outcome = row.observed.outcome
    judged = outcome in RAN and case.accelerator is not STAND_IN
    verdict = inference_verdict(case) if judged else None
    return Result(
        id=row.id,
        groups=(row.engine, f"{row.engine} since {case.era.since}", f"weights {case.weights.id}"),
        predictions=tuple(scorer.predictions),
        verdict=verdict,
        outcome=outcome,
        ending=ending(verdict, RAN[outcome]) if verdict and outcome in RAN else None,
        left_out=scorer.left_out,
    )
