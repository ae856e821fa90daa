"""Which accelerators does a request mean: a name, a spec sheet, or those of a machine?"""

import msgspec

from tonnage.catalog.kinds import AcceleratorRecord, MachineRecord
from tonnage.catalog.release import Release
from tonnage.engine.answer import Note
from tonnage.engine.errors import Contradiction
from tonnage.engine.hardware import Accelerator, UsableMemory

from .names import record_of
from .requests import Hardware


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    facts: Accelerator
    id: str | None
    machine: str | None
    count: int


def devices_of(hardware: Hardware, release: Release, notes: list[Note]) -> Devices:
    if (hardware.accelerator is None) == (hardware.machine is None):
        raise Contradiction(
            "hardware names an accelerator or a machine, one of the two",
            pointer="/hardware",
            remedy="an accelerator with its count, or a machine",
        )
    if hardware.slice is not None and not isinstance(hardware.accelerator, str):
        raise Contradiction(
            "a slice is of an accelerator that the catalog has by name",
            pointer="/hardware/slice",
            remedy="an accelerator's id, or a spec sheet with the slice's own memory",
        )
    found = _devices(hardware, release, notes)
    most = found.facts.marketed_memory_bytes
    if hardware.memory_in_use_bytes > most:
        raise Contradiction(
            f"other programs can not hold {hardware.memory_in_use_bytes} bytes of "
            f"{found.facts.name}, which has {most}",
            pointer="/hardware/memory_in_use_bytes",
            remedy=f"at most {most}",
        )
    return found


def _devices(hardware: Hardware, release: Release, notes: list[Note]) -> Devices:
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
        return Devices(facts=facts, id=None, machine=None, count=hardware.count or 1)
    assert hardware.accelerator is not None
    record = record_of(
        release, "accelerators", hardware.accelerator, "/hardware/accelerator", notes
    )
    assert isinstance(record, AcceleratorRecord)
    _say_derived(record, notes)
    facts = release.accelerator(record)
    if hardware.slice is not None:
        facts = _slice_of(facts, record, hardware.slice, notes)
    return Devices(facts=facts, id=record.id, machine=None, count=hardware.count or 1)


def _slice_of(
    facts: Accelerator, record: AcceleratorRecord, profile: str, notes: list[Note]
) -> Accelerator:
    found = next((s for s in record.slices if s.profile.lower() == profile.lower()), None)
    if found is None:
        known = ", ".join(entry.profile for entry in record.slices)
        raise Contradiction(
            f"{record.name} has no profile {profile!r}",
            pointer="/hardware/slice",
            remedy=f"one of {known}" if known else "leave it out: no profile of it is known",
        )
    notes.append(
        Note(
            code="slice_of_accelerator",
            text=f"Each accelerator is a slice {found.profile}; one {record.name} holds at most "
            f"{found.most_per_device} of them. Ranks on slices have no link to each other: verify "
            "that the runtime's communication works between them.",
            pointer="/hardware/slice",
        )
    )
    part = _part_of(facts, found.memory_bytes / facts.marketed_memory_bytes)
    return msgspec.structs.replace(part, name=f"{facts.name} {found.profile}")


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


def _machine(hardware: Hardware, release: Release, notes: list[Note]) -> Devices:
    assert hardware.machine is not None
    machine = record_of(release, "machines", hardware.machine, "/hardware/machine", notes)
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
    return Devices(facts=facts, id=record.id, machine=machine.id, count=count)


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
