"""Which facts do the names of a request mean? Everything taken for granted is said."""

import msgspec

from tonnage.catalog.kinds import (
    FormatRecord,
    ModelRecord,
    RuntimeRecord,
)
from tonnage.catalog.release import Release
from tonnage.engine.answer import Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import Era
from tonnage.engine.errors import Contradiction, NotModelled
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import Runtime
from tonnage.engine.values import GIB
from tonnage.engine.version import parse_version
from tonnage.engine.workload import Parallelism

from .devices import devices_of
from .formats import Checkpoint, caches_of, weights_of
from .names import record_of
from .requests import TENSOR_PARALLEL, FitInferenceRequest, InlineModel, runtime_name


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An engine case, the ids that it came from, and what was assumed on the way."""

    case: InferenceCase
    model: str | None
    model_name: str
    accelerator: str | None
    machine: str | None
    assumptions: tuple[Note, ...]


def resolve(request: FitInferenceRequest, release: Release) -> Question:
    """Raises UnknownName for a name that means nothing, Contradiction for parts that exclude."""
    notes: list[Note] = []
    model_id, model_name, architecture, checkpoint = _model(request, release, notes)
    device = devices_of(request.hardware, release, notes)
    runtime_record = record_of(release, "runtimes", runtime_name(request), "/runtime/name", notes)
    assert isinstance(runtime_record, RuntimeRecord)
    runtime = release.runtime(runtime_record)
    version, era = _era(request, runtime, notes)
    weights = weights_of(request, release, checkpoint, notes)
    keys, values = caches_of(request, release, checkpoint.format, notes)
    case = InferenceCase(
        model=architecture,
        accelerator=device.facts,
        count=device.count,
        runtime=runtime,
        version=version,
        era=era,
        flags=request.runtime.flags,
        weights=weights,
        key_cache=keys,
        value_cache=values,
        parallel=_parallel(request, device.count, notes),
        workload=request.workload,
        in_use_bytes=request.hardware.memory_in_use_bytes,
    )
    return Question(
        case=case,
        model=model_id,
        model_name=model_name,
        accelerator=device.id,
        machine=device.machine,
        assumptions=tuple(notes),
    )


def _model(
    request: FitInferenceRequest, release: Release, notes: list[Note]
) -> tuple[str | None, str, ModelArchitecture, Checkpoint]:
    if isinstance(request.model, InlineModel):
        request.model.architecture.check("/model/architecture")
        inline = request.model
        own = Checkpoint(inline.checkpoint_format, inline.checkpoint_encoding)
        return None, inline.name, inline.architecture, own
    record = record_of(release, "models", request.model, "/model", notes)
    assert isinstance(record, ModelRecord)
    if record.architecture is None:
        raise _not_priced(record, release)
    own = Checkpoint(record.checkpoint_format, record.checkpoint_encoding)
    return record.id, record.name, record.architecture, own


def _not_priced(record: ModelRecord, release: Release) -> NotModelled:
    """What is known of it all the same, and what is missing for a verdict."""
    if not record.components:
        return NotModelled(
            f"{record.id} is listed without an architecture that can be priced"
            + (f": {record.note}" if record.note else ""),
            pointer="/model",
        )
    form = release.records["formats"][record.checkpoint_format]
    assert isinstance(form, FormatRecord)
    bits = form.weights.bits_per_weight if form.weights else 16
    sizes = {name: count * bits / 8 / GIB for name, count in record.components.items()}
    parts = ", ".join(f"{name} {size:.2f}" for name, size in sizes.items())
    return NotModelled(
        f"{record.id} generates images or video: what its activations take at a picture's size is "
        "not modelled, so there is no verdict. Its weights are known, in "
        f"{record.checkpoint_format} and GiB: {parts}; all resident {sum(sizes.values()):.2f}, one "
        f"at a time {max(sizes.values()):.2f}",
        pointer="/model",
    )


def _era(request: FitInferenceRequest, runtime: Runtime, notes: list[Note]) -> tuple[str, Era]:
    version = request.runtime.version or runtime.default_version
    if version is None:
        raise Contradiction("the runtime's version is needed", pointer="/runtime/version")
    if request.runtime.version is None:
        notes.append(
            Note(
                code="default_version",
                text=f"{runtime.name} {version}, the newest that the catalog describes.",
                pointer="/runtime/version",
            )
        )
    builds = runtime.version_style == "builds"
    if version.startswith("b") != builds and not (builds and version.isdigit()):
        raise Contradiction(
            f"{version} is not how {runtime.name} numbers its releases",
            pointer="/runtime/version",
            remedy=f"as {runtime.default_version}",
        )
    newest = runtime.default_version
    if newest is not None and parse_version(version) > parse_version(newest):
        notes.append(
            Note(
                code="version_is_newer_than_facts",
                text=f"The catalog describes {runtime.name} up to {newest}; {version} "
                "is counted in the same way.",
                pointer="/runtime/version",
            )
        )
    era = runtime.era(version)
    if era is None:
        raise NotModelled(
            f"{runtime.name} {version} is older than the catalog's facts",
            pointer="/runtime/version",
            remedy=f"{runtime.eras[0].since} or newer" if runtime.eras else None,
        )
    return version, era


def _parallel(request: FitInferenceRequest, count: int, notes: list[Note]) -> Parallelism:
    if request.parallel is not None:
        return request.parallel
    if not isinstance(request.runtime, TENSOR_PARALLEL) or count == 1:
        return Parallelism()
    notes.append(
        Note(
            code="tensor_parallel_over_all",
            text=f"Tensor parallel size {count}: all accelerators in one group.",
            pointer="/parallel/tensor",
        )
    )
    return Parallelism(tensor=count)
