"""Which accelerator does a measured case name, and what total did its runtime see?"""

import msgspec

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import AcceleratorRecord
from tonnage.catalog.release import Release
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.values import GIB

STAND_IN = Accelerator(name="device not stated", marketed_memory_bytes=1024 * GIB)
"""For what does not depend on the device: weights, cache layout, compute buffers."""


def accelerator(
    release: Release, name: str | None, label_gib: float | None, total_gib: float | None
) -> Accelerator | None:
    """The device by its name, else by name and memory; None for names that say no device.

    ``total_gib`` is the total that the runtime itself printed and replaces the catalog's.
    """
    if name is None:
        return None
    found = _record(release, name, label_gib)
    if found is None:
        return None
    facts = release.accelerator(found)
    if total_gib is None:
        return facts
    total = int(total_gib * GIB)
    return msgspec.structs.replace(
        facts,
        usable_memory=UsableMemory(
            low_bytes=total, expected_bytes=total, high_bytes=total, basis="measured"
        ),
    )


def _record(release: Release, name: str, label_gib: float | None) -> AcceleratorRecord | None:
    candidates = [name] if label_gib is None else [f"{name} {label_gib:g}GB", name]
    for candidate in candidates:
        try:
            record = release.resolve("accelerators", candidate).record
        except UnknownRecord:
            continue
        assert isinstance(record, AcceleratorRecord)
        if label_gib is None or abs(record.marketed_memory_bytes / GIB / label_gib - 1) < 0.1:
            return record
    return None
