"""Which facts do the names of a request mean? Everything taken for granted is said."""

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import (
    AcceleratorRecord,
    FormatRecord,
    Kind,
    MachineRecord,
    ModelRecord,
    RuntimeRecord,
)
from tonnage.catalog.release import Release
from tonnage.engine.answer import Note
from tonnage.engine.case import InferenceCase, NamedCache, NamedWeights
from tonnage.engine.errors import Contradiction, NotModelled
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.runtime import Era, Runtime
from tonnage.engine.version import parse_version
from tonnage.engine.workload import Parallelism

from .errors import UnknownName
from .requests import FitInferenceRequest, Hardware, InlineModel


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """An engine case, the ids that it came from, and what was assumed on the way."""

    case: InferenceCase
    model: str | None
    model_name: str
    accelerator: str | None
    machine: str | None
    assumptions: tuple[Note, ...]


class _Device(msgspec.Struct, frozen=True, kw_only=True):
    facts: Accelerator
    id: str | None
    machine: str | None
    count: int


def resolve(request: FitInferenceRequest, release: Release) -> Question:
    """Raises UnknownName for a name that means nothing, Contradiction for parts that exclude."""
    notes: list[Note] = []
    model_id, model_name, architecture, checkpoint = _model(request, release, notes)
    device = _device(request.hardware, release, notes)
    runtime_record = _record(release, "runtimes", _runtime_name(request), "/runtime/name", notes)
    assert isinstance(runtime_record, RuntimeRecord)
    runtime = release.runtime(runtime_record)
    version, era = _era(request, runtime, notes)
    weights = _weights(request, release, checkpoint, notes)
    keys, values = _caches(request, release, checkpoint, notes)
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


def _record(
    release: Release, kind: Kind, name: str, pointer: str, notes: list[Note]
) -> ModelRecord | AcceleratorRecord | MachineRecord | RuntimeRecord | FormatRecord:
    try:
        found = release.resolve(kind, name)
    except UnknownRecord as unknown:
        raise UnknownName(kind, name, unknown.suggestions, pointer) from unknown
    if found.by_default:
        others = f" It could also be {', '.join(found.others)}." if found.others else ""
        notes.append(
            Note(
                code="ambiguous_name",
                text=f"{name} is taken as {found.record.id}.{others}",
                pointer=pointer,
            )
        )
    record = found.record
    assert isinstance(
        record, ModelRecord | AcceleratorRecord | MachineRecord | RuntimeRecord | FormatRecord
    )
    return record


def _model(
    request: FitInferenceRequest, release: Release, notes: list[Note]
) -> tuple[str | None, str, ModelArchitecture, str]:
    if isinstance(request.model, InlineModel):
        request.model.architecture.check("/model/architecture")
        inline = request.model
        return None, inline.name, inline.architecture, inline.checkpoint_format
    record = _record(release, "models", request.model, "/model", notes)
    assert isinstance(record, ModelRecord)
    if record.architecture is None:
        raise NotModelled(
            f"{record.id} is listed without an architecture that can be priced"
            + (f": {record.note}" if record.note else ""),
            pointer="/model",
        )
    return record.id, record.name, record.architecture, record.checkpoint_format


def _device(hardware: Hardware, release: Release, notes: list[Note]) -> _Device:
    if (hardware.accelerator is None) == (hardware.machine is None):
        raise Contradiction(
            "hardware names an accelerator or a machine, one of the two",
            pointer="/hardware",
            remedy="an accelerator with its count, or a machine",
        )
    if hardware.machine is not None:
        return _machine(hardware, release, notes)
    if isinstance(hardware.accelerator, Accelerator):
        facts = hardware.accelerator
        if facts.usable_memory is None:
            notes.append(
                Note(
                    code="usable_memory_derived",
                    text="The memory that a runtime sees is derived from the spec sheet.",
                    pointer="/hardware/accelerator/usable_memory",
                )
            )
        return _Device(facts=facts, id=None, machine=None, count=hardware.count or 1)
    assert hardware.accelerator is not None
    record = _record(release, "accelerators", hardware.accelerator, "/hardware/accelerator", notes)
    assert isinstance(record, AcceleratorRecord)
    _say_derived(record, notes)
    return _Device(
        facts=release.accelerator(record), id=record.id, machine=None, count=hardware.count or 1
    )


def _say_derived(record: AcceleratorRecord, notes: list[Note]) -> None:
    if record.usable_memory.basis == "derived":
        notes.append(
            Note(
                code="usable_memory_derived",
                text=f"No runtime's total is published for {record.name}; it is derived from "
                "devices like it.",
                pointer="/hardware/accelerator",
            )
        )


def _machine(hardware: Hardware, release: Release, notes: list[Note]) -> _Device:
    assert hardware.machine is not None
    machine = _record(release, "machines", hardware.machine, "/hardware/machine", notes)
    assert isinstance(machine, MachineRecord)
    if hardware.count is not None and hardware.count > machine.accelerator_count:
        raise Contradiction(
            f"{machine.id} has {machine.accelerator_count} accelerators",
            pointer="/hardware/count",
            remedy=f"at most {machine.accelerator_count}",
        )
    record = release.records["accelerators"].get(machine.accelerator)
    assert isinstance(record, AcceleratorRecord)
    facts = release.accelerator(record)
    if machine.accelerator_share is not None:
        facts = _part_of(facts, machine.accelerator_share)
        notes.append(
            Note(
                code="share_of_accelerator",
                text=f"{machine.id} has {machine.accelerator_share:.3g} of one {record.name}.",
                pointer="/hardware/machine",
            )
        )
    _say_derived(record, notes)
    count = hardware.count or machine.accelerator_count
    return _Device(facts=facts, id=record.id, machine=machine.id, count=count)


def _part_of(facts: Accelerator, share: float) -> Accelerator:
    whole = facts.usable_memory
    usable = whole and UsableMemory(
        low_bytes=int(whole.low_bytes * share * 0.97),
        expected_bytes=int(whole.expected_bytes * share),
        high_bytes=int(whole.high_bytes * share),
    )
    return msgspec.structs.replace(
        facts,
        marketed_memory_bytes=int(facts.marketed_memory_bytes * share),
        driver_total_bytes=None,
        usable_memory=usable,
    )


def _runtime_name(request: FitInferenceRequest) -> str:
    return str(request.runtime.__struct_config__.tag)


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
                text=f"The catalog describes {runtime.name} up to {newest}; {version} is taken "
                "to account alike.",
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


def _formats(release: Release) -> list[FormatRecord]:
    return [r for r in release.records["formats"].values() if isinstance(r, FormatRecord)]


def _weights(
    request: FitInferenceRequest, release: Release, checkpoint: str, notes: list[Note]
) -> NamedWeights:
    name, pointer = request.formats.weights, "/formats/weights"
    if name == "auto":
        name = checkpoint
        if isinstance(request.model, InlineModel):
            pointer = "/model/checkpoint_format"
        if _runtime_name(request) == "vllm" and checkpoint == "fp32":
            name = "fp16"
        notes.append(
            Note(
                code="checkpoint_format",
                text=f"Weights in {name}, as the checkpoint is published"
                + (" (vLLM casts float32 to float16)." if name != checkpoint else "."),
                pointer="/formats/weights",
            )
        )
    record = _record(release, "formats", name, pointer, notes)
    assert isinstance(record, FormatRecord)
    if record.weights is None:
        known = (r.id for r in _formats(release) if r.weights is not None)
        raise Contradiction(
            f"{record.id} is not a format for weights",
            pointer=pointer,
            remedy=f"one of {', '.join(known)}",
        )
    return NamedWeights(record.id, record.family, record.weights)


def _caches(
    request: FitInferenceRequest, release: Release, checkpoint: str, notes: list[Note]
) -> tuple[NamedCache, NamedCache]:
    keys = _cache(
        request, release, request.formats.kv_cache, checkpoint, "/formats/kv_cache", notes
    )
    other = request.formats.kv_cache_values
    if other is None:
        return keys, keys
    if _runtime_name(request) != "llama.cpp":
        raise Contradiction(
            "only llama.cpp stores values otherwise than keys",
            pointer="/formats/kv_cache_values",
            remedy="leave it out",
        )
    return keys, _cache(request, release, other, checkpoint, "/formats/kv_cache_values", notes)


def _cache(
    request: FitInferenceRequest,
    release: Release,
    name: str,
    checkpoint: str,
    pointer: str,
    notes: list[Note],
) -> NamedCache:
    if name == "auto":
        half = _runtime_name(request) == "llama.cpp" or checkpoint in ("fp16", "fp32")
        name = "fp16" if half else "bf16"
    record = _record(release, "formats", name, pointer, notes)
    assert isinstance(record, FormatRecord)
    if record.cache is None:
        known = (r.id for r in _formats(release) if r.cache is not None)
        raise Contradiction(
            f"{record.id} is not a format for the KV cache",
            pointer=pointer,
            remedy=f"one of {', '.join(known)}",
        )
    return NamedCache(record.id, record.family, record.cache)


def _parallel(request: FitInferenceRequest, count: int, notes: list[Note]) -> Parallelism:
    if request.parallel is not None:
        return request.parallel
    if _runtime_name(request) != "vllm" or count == 1:
        return Parallelism()
    notes.append(
        Note(
            code="tensor_parallel_over_all",
            text=f"Tensor parallel size {count}: all accelerators in one group.",
            pointer="/parallel/tensor",
        )
    )
    return Parallelism(tensor=count)
