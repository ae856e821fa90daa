"""Will it fit? The whole answer: verdict, ledger, capacity, support, remedies, identity."""

import hashlib

import msgspec

from tonnage import ENGINE_VERSION
from tonnage.canonical import canonical, plain
from tonnage.catalog.release import Release
from tonnage.engine.answer import InferenceFit, Outcome, Verdict
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import EngineError
from tonnage.engine.fit import fit_inference, inference_verdict
from tonnage.engine.remedies import pairs, proposals
from tonnage.engine.remedy_settings import Proposal
from tonnage.engine.support import support
from tonnage.engine.values import GIB

from .answers import SCHEMA_VERSION, FitInferenceAnswer, Identity, Remedy, Subject
from .errors import UnknownName
from .patches import merged
from .requests import FitInferenceRequest
from .resolve import Question, resolve

MOST_REMEDIES = 8
_BEST_FIRST: tuple[Verdict, ...] = ("fits", "tight", "does_not_fit")


def answer_fit(request: FitInferenceRequest, release: Release) -> FitInferenceAnswer:
    """Raises UnknownName, Contradiction or NotModelled with the pointer of the field at fault."""
    question = resolve(request, release)
    case = question.case
    fit = fit_inference(case)
    supported = support(case)
    return FitInferenceAnswer(
        verdict=fit.verdict,
        bound_by=fit.bound_by,
        outcome=_outcome(fit),
        summary=summary(question, fit),
        subject=_subject(question),
        ledger=fit.ledgers,
        capacity=fit.capacity,
        host_memory_bytes=fit.host_bytes,
        support=supported,
        remedies=_remedies(request, release, case, fit),
        assumptions=(*question.assumptions, *fit.assumptions),
        warnings=fit.warnings,
        data_flows=case.runtime.data_flows,
        identity=Identity(
            schema_version=SCHEMA_VERSION,
            catalog_release=release.number,
            catalog_digest=release.digest,
            engine_version=ENGINE_VERSION,
            request_digest=request_digest(request),
        ),
    )


def _outcome(fit: InferenceFit) -> Outcome:
    assert fit.outcome is not None
    return fit.outcome


def request_digest(request: FitInferenceRequest) -> str:
    """Of the request's canonical JSON: order of keys and spelled-out defaults do not matter."""
    return f"sha256:{hashlib.sha256(canonical(request)).hexdigest()}"


def _subject(question: Question) -> Subject:
    case = question.case
    return Subject(
        model=question.model,
        parameters=case.model.parameters,
        accelerator=question.accelerator,
        machine=question.machine,
        accelerator_count=case.count,
        runtime=case.runtime.id,
        runtime_version=case.version,
        weight_format=case.weights.id,
        kv_cache_format=case.key_cache.id,
        tensor_parallel_size=case.parallel.tensor,
        pipeline_parallel_size=case.parallel.pipeline,
        data_parallel_size=case.parallel.data,
        expert_parallel_size=case.parallel.expert,
    )


_SAYS: dict[Verdict, str] = {
    "fits": "fits",
    "tight": "fits if all goes as expected, which is not certain,",
    "does_not_fit": "does not fit",
}


def summary(question: Question, fit: InferenceFit) -> str:
    """One sentence for people: what, where, by how much."""
    case, workload = question.case, question.case.workload
    fullest = min(fit.ledgers, key=lambda ranks: ranks.free.expected)
    if fullest.refusal is not None:
        starts = fit.outcome is not None and fit.outcome.code == "starts_and_queues"
        says = "does not fit" if starts else "does not start"
        return f"{question.model_name} in {case.weights.id} {says}: {fullest.refusal.text}."
    missing = fullest.free.expected < 0
    gib = abs(fullest.free.expected) / GIB
    device = question.machine or f"{case.count} x {case.accelerator.name}"
    held = fit.capacity.sequences_at_context.expected
    return (
        f"{question.model_name} in {case.weights.id} {_SAYS[fit.verdict]} on {device} under "
        f"{case.runtime.name} {case.version} with {workload.concurrent_sequences} x "
        f"{workload.context_tokens} tokens: {gib:.2f} GiB {'missing' if missing else 'to spare'} "
        f"on the fullest accelerator, room for {held} such sequence{'' if held == 1 else 's'}."
    )


def _remedies(
    request: FitInferenceRequest, release: Release, case: InferenceCase, fit: InferenceFit
) -> tuple[Remedy, ...]:
    """What makes it fit, each tried; only what betters the verdict is kept, the best first."""
    if fit.verdict == "fits":
        return ()
    asked = plain(request)
    found = _tried(asked, release, fit.verdict, proposals(case, fit))
    if not any(remedy.verdict == "fits" for remedy in found):
        found += _tried(asked, release, fit.verdict, pairs(case))
    found.sort(key=lambda remedy: _BEST_FIRST.index(remedy.verdict))
    return tuple(found[:MOST_REMEDIES])


def _tried(
    request: dict[str, object], release: Release, verdict: Verdict, candidates: list[Proposal]
) -> list[Remedy]:
    found = []
    settled: set[str] = set()
    for proposal in candidates:
        if proposal.axis in settled:
            continue
        try:
            changed = msgspec.convert(merged(request, proposal.patch), FitInferenceRequest)
            question = resolve(changed, release)
            after = inference_verdict(question.case)
            says = support(question.case)
        except (EngineError, UnknownName, msgspec.ValidationError):
            continue
        if "no" in (
            says.runtime_on_device,
            says.format_on_device,
            says.cache_format_on_device,
        ):
            continue
        if _BEST_FIRST.index(after) < _BEST_FIRST.index(verdict):
            found.append(Remedy(patch=proposal.patch, cost=proposal.cost, verdict=after))
            if after == "fits" and proposal.axis:
                settled.add(proposal.axis)
    return found
