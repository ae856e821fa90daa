"""What changed between two releases, record by record and field by field."""

from typing import Any, Literal

import msgspec

from tonnage.canonical import canonical, plain

from .kinds import AnyRecord, Kind
from .release import Release


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """``before`` and ``after`` are null where the field was not there."""

    pointer: str
    before: Any
    after: Any


class RecordChange(msgspec.Struct, frozen=True, kw_only=True):
    kind: Kind
    id: str
    change: Literal["added", "changed", "retired"]
    fields: list[FieldChange]
    """Of a changed record; empty for the other two."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    older: int
    newer: int
    changes: list[RecordChange]


def difference_between(older: Release, newer: Release) -> Difference:
    """In order of kind and id. ``older`` may be the later one: the answer then reads backwards."""
    changes: list[RecordChange] = []
    for kind, after in newer.records.items():
        before = older.records[kind]
        for record_id in sorted({*before, *after}):
            change = _change(kind, record_id, before.get(record_id), after.get(record_id))
            if change is not None:
                changes.append(change)
    return Difference(older=older.number, newer=newer.number, changes=changes)


def _change(
    kind: Kind, record_id: str, before: AnyRecord | None, after: AnyRecord | None
) -> RecordChange | None:
    if before is None:
        return RecordChange(kind=kind, id=record_id, change="added", fields=[])
    if after is None:
        return RecordChange(kind=kind, id=record_id, change="retired", fields=[])
    if before is after or canonical(before) == canonical(after):
        return None
    fields = _fields(plain(before), plain(after), "")
    return RecordChange(kind=kind, id=record_id, change="changed", fields=fields)


def _fields(before: Any, after: Any, pointer: str) -> list[FieldChange]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            change
            for key in sorted({*before, *after})
            for change in _fields(before.get(key), after.get(key), f"{pointer}/{_escaped(key)}")
        ]
    if before == after:
        return []
    return [FieldChange(pointer=pointer, before=before, after=after)]


def _escaped(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
