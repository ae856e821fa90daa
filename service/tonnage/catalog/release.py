"""One release in memory: every record by kind and id, and every name that resolves to one.

Estimates read releases and never the database, so they go on when PostgreSQL is away.
"""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import cast

import msgspec

from tonnage.engine.hardware import Accelerator
from tonnage.engine.runtime import Runtime

from .digests import Identity, record_digest, release_digest
from .errors import UnknownRecord
from .kinds import RECORD_TYPES, AcceleratorRecord, AnyRecord, Kind, RuntimeRecord
from .names import is_run_of, nearest, normal


class Resolved(msgspec.Struct, frozen=True):
    """A record, and whether an ambiguous name had to take its documented default."""

    record: AnyRecord
    by_default: bool = False
    others: tuple[str, ...] = ()


class Release:
    def __init__(
        self,
        number: int,
        records: Iterable[AnyRecord],
        digest: str | None = None,
        record_digests: dict[Identity, str] | None = None,
    ) -> None:
        """Digests that are known already need not be computed again."""
        self.number = number
        self.records: dict[Kind, dict[str, AnyRecord]] = {kind: {} for kind in RECORD_TYPES}
        for record in records:
            self.records[kind_of(record)][record.id] = record
        for kind, found in self.records.items():
            self.records[kind] = dict(sorted(found.items()))
        self._digest = digest
        self._record_digests = record_digests
        self._ambiguous: dict[tuple[Kind, str], Resolved] = {}
        self._accelerators: dict[str, Accelerator] = {}
        self._runtimes: dict[str, Runtime] = {}

    @cached_property
    def digest(self) -> str:
        return self._digest or release_digest(self.record_digests.items())

    @cached_property
    def record_digests(self) -> dict[Identity, str]:
        if self._record_digests is not None:
            return self._record_digests
        return {
            (kind, record_id): record_digest(record)
            for kind, records in self.records.items()
            for record_id, record in records.items()
        }

    @cached_property
    def _names(self) -> dict[Kind, dict[str, str]]:
        """Normalised id, alias or name to id; an id wins over an alias, an alias over a name."""
        found: dict[Kind, dict[str, str]] = {}
        for kind, records in self.records.items():
            titles = Counter(normal(record.name) for record in records.values())
            names = {key: r.id for r in records.values() if titles[key := normal(r.name)] == 1}
            names.update({normal(alias): r.id for r in records.values() for alias in r.aliases})
            names.update({normal(record_id): record_id for record_id in records})
            found[kind] = names
        return found

    @cached_property
    def _defaults(self) -> dict[Kind, dict[str, str]]:
        return {
            kind: {normal(name): r.id for r in records.values() for name in r.default_for}
            for kind, records in self.records.items()
        }

    def owners(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Every record that has the name as its id or alias; more than one is a fault."""
        return self._owners[kind].get(normal(name), ())

    def defaults(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Every record that claims to be the default for the name."""
        wanted = normal(name)
        return tuple(
            record.id
            for record in self.records[kind].values()
            if any(normal(own) == wanted for own in record.default_for)
        )

    @cached_property
    def _owners(self) -> dict[Kind, dict[str, tuple[str, ...]]]:
        found: dict[Kind, dict[str, tuple[str, ...]]] = {}
        for kind, records in self.records.items():
            owners: dict[str, tuple[str, ...]] = {}
            for record in records.values():
                for key in {normal(name) for name in (record.id, *record.aliases)}:
                    owners[key] = (*owners.get(key, ()), record.id)
            found[kind] = owners
        return found

    def resolve(self, kind: Kind, name: str) -> Resolved:
        """The record that a name means. Raises UnknownRecord with what may have been meant."""
        record = self.records[kind].get(name)
        if record is not None:
            return Resolved(record)
        wanted = normal(name)
        default = self._defaults[kind].get(wanted)
        found = self._names[kind].get(wanted)
        if found is not None and default is None:
            return Resolved(self.records[kind][found])
        if default is not None:
            return self._by_default(kind, wanted, default)
        raise UnknownRecord(kind, name, self.suggest(kind, name))

    def _by_default(self, kind: Kind, wanted: str, default: str) -> Resolved:
        """With the records that the name could also mean: it is a run of words of a name."""
        held = self._ambiguous.get((kind, wanted))
        if held is not None:
            return held
        others = tuple(
            record.id
            for record in self.records[kind].values()
            if record.id != default
            and any(is_run_of(wanted, own) for own in (record.id, record.name, *record.aliases))
        )[:8]
        found = Resolved(self.records[kind][default], True, others)
        self._ambiguous[kind, wanted] = found
        return found

    def haystack(self, kind: Kind, record_id: str) -> str:
        """What a text search looks through, without case and punctuation."""
        return self._haystacks[kind][record_id]

    @cached_property
    def _haystacks(self) -> dict[Kind, dict[str, str]]:
        return {
            kind: {
                record_id: normal(
                    "|".join((record_id, r.name, getattr(r, "family", ""), *r.aliases))
                )
                for record_id, r in records.items()
            }
            for kind, records in self.records.items()
        }

    def suggest(self, kind: Kind, name: str) -> tuple[str, ...]:
        records = self.records[kind]
        candidates = {name: r.id for r in records.values() for name in (r.id, r.name, *r.aliases)}
        close = nearest(name, candidates.keys(), most=6)
        return tuple(dict.fromkeys(candidates[found] for found in close))[:3]

    def accelerator(self, record: AcceleratorRecord) -> Accelerator:
        """The engine's view of a record, made once."""
        found = self._accelerators.get(record.id)
        if found is None:
            found = self._accelerators[record.id] = as_accelerator(record)
        return found

    def runtime(self, record: RuntimeRecord) -> Runtime:
        found = self._runtimes.get(record.id)
        if found is None:
            found = self._runtimes[record.id] = msgspec.convert(
                {f: getattr(record, f) for f in Runtime.__struct_fields__}, Runtime
            )
        return found


def kind_of(record: AnyRecord) -> Kind:
    return cast(Kind, record.__struct_config__.tag)


def as_accelerator(record: AcceleratorRecord) -> Accelerator:
    return Accelerator(**{field: getattr(record, field) for field in Accelerator.__struct_fields__})
