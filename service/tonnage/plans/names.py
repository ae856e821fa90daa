"""Which record does a name mean, and what is said where it was ambiguous?"""

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

from .errors import UnknownName

Named = ModelRecord | AcceleratorRecord | MachineRecord | RuntimeRecord | FormatRecord
"""What a request names; built once, since a union costs more to build than to check."""


def record_of(release: Release, kind: Kind, name: str, pointer: str, notes: list[Note]) -> Named:
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
    assert isinstance(record, Named)
    return record
