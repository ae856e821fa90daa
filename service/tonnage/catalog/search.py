"""Which records of a release does a search mean?"""

from collections.abc import Callable, Iterable, Mapping

from .kinds import AcceleratorRecord, AnyRecord, Kind, MachineRecord
from .names import normal, words
from .release import Release


def search(
    release: Release, kind: Kind, text: str | None, filters: Mapping[str, object]
) -> list[AnyRecord]:
    """Records in order of id. ``filters`` are field names and wanted values; None is no filter."""
    tests = [_test(name, wanted, release) for name, wanted in filters.items() if wanted is not None]
    wanted_words = [normal(word) for word in words(text or "")]
    return [
        record
        for record_id, record in release.records[kind].items()
        if all(test(record) for test in tests)
        and _has_words(release.haystack(kind, record_id), wanted_words)
    ]


def _has_words(haystack: str, wanted: Iterable[str]) -> bool:
    return all(word in haystack for word in wanted)


def _test(name: str, wanted: object, release: Release) -> Callable[[AnyRecord], bool]:
    match name, wanted:
        case "min_memory_bytes", int(least):
            return lambda record: _memory(record, release) >= least
        case "max_memory_bytes", int(most):
            return lambda record: _memory(record, release) <= most
        case _:
            text = normal(str(wanted))
            return lambda record: text == normal(str(getattr(record, name, None) or ""))


def _memory(record: AnyRecord, release: Release) -> int:
    """Usable bytes of one accelerator, as runtimes see it."""
    if isinstance(record, MachineRecord):
        found = release.records["accelerators"].get(record.accelerator)
        return _memory(found, release) if found is not None else 0
    return record.usable_memory.expected_bytes if isinstance(record, AcceleratorRecord) else 0
