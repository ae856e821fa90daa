"""A change set: what a new release changes, all of it or nothing."""

import hashlib
from collections.abc import Iterable
from typing import Annotated

import msgspec

from tonnage.canonical import canonical

from .digests import record_digest
from .errors import UnsoundChange
from .kinds import AnyRecord, Kind, RecordId
from .references import users_of
from .release import Release, kind_of
from .review import review

Message = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class Put(msgspec.Struct, frozen=True, tag="put", tag_field="op", forbid_unknown_fields=True):
    """Add a record, or replace the one of the same kind and id."""

    record: AnyRecord


class Retire(msgspec.Struct, frozen=True, tag="retire", tag_field="op", forbid_unknown_fields=True):
    """Take a record out of this and later releases; earlier ones keep it."""

    kind: Kind
    id: RecordId


Change = Put | Retire


class ChangeSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    message: Message
    changes: Annotated[tuple[Change, ...], msgspec.Meta(min_length=1, max_length=5000)]

    @property
    def digest(self) -> str:
        return hashlib.sha256(canonical(self)).hexdigest()


def applied(base: Release, change_set: ChangeSet) -> Release:
    """The release that follows ``base``. Raises UnsoundChange with every finding."""
    records = {kind: dict(found) for kind, found in base.records.items()}
    digests = dict(base.record_digests)
    findings: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    for index, change in enumerate(change_set.changes):
        pointer = f"/changes/{index}"
        kind, record_id = _target(change)
        if (kind, record_id) in seen:
            findings.append((pointer, f"{kind} {record_id} is changed twice"))
        seen.add((kind, record_id))
        held = records[kind].get(record_id)
        if isinstance(change, Retire):
            if held is None:
                findings.append(
                    (f"{pointer}/id", f"{kind} {record_id} is not in release {base.number}")
                )
            records[kind].pop(record_id, None)
            digests.pop((kind, record_id), None)
            continue
        digest = record_digest(change.record)
        if held is not None and digests[kind, record_id] == digest:
            findings.append((f"{pointer}/record", f"{kind} {record_id} is already so"))
        records[kind][record_id] = change.record
        digests[kind, record_id] = digest
    every = (record for found in records.values() for record in found.values())
    following = Release(base.number + 1, every, record_digests=digests)
    findings += _review(following, change_set.changes)
    if findings:
        raise UnsoundChange(findings)
    return following


def _target(change: Change) -> tuple[Kind, str]:
    if isinstance(change, Retire):
        return change.kind, change.id
    return kind_of(change.record), change.record.id


def _review(release: Release, changes: Iterable[Change]) -> list[tuple[str, str]]:
    findings: list[tuple[str, str]] = []
    for index, change in enumerate(changes):
        if isinstance(change, Put):
            pointer = f"/changes/{index}/record"
            findings += [(pointer, finding) for finding in review(change.record, release)]
        else:
            users = list(users_of(release, change.kind, change.id))
            if users:
                more = f" and {len(users) - 3} more" if len(users) > 3 else ""
                text = f"{change.kind} {change.id} is named by {', '.join(users[:3])}{more}"
                findings.append((f"/changes/{index}/id", text))
    return findings
