"""Which other records does a record name? None of them may be taken out while it does."""

from collections.abc import Iterator

from .kinds import (
    AcceleratorRecord,
    AnyRecord,
    HostedApiRecord,
    Kind,
    MachineRecord,
    ModelRecord,
    OfferRecord,
    SiteRecord,
)
from .release import Release


def references(record: AnyRecord) -> tuple[tuple[Kind, str], ...]:
    """Kind and id of each."""
    found: list[tuple[Kind, str | None]] = []
    match record:
        case ModelRecord():
            found = [("formats", record.checkpoint_format)]
        case AcceleratorRecord():
            found = [("links", record.scale_up_link), ("links", record.host_link)]
        case MachineRecord():
            found = [("accelerators", record.accelerator)]
        case OfferRecord():
            found = [("machines", record.machine), ("accelerators", record.accelerator)]
        case HostedApiRecord():
            found = [("models", record.catalog_model)]
        case SiteRecord():
            found = [("accelerators", record.accelerator)]
        case _:
            pass
    return tuple((kind, record_id) for kind, record_id in found if record_id is not None)


def users_of(release: Release, kind: Kind, record_id: str) -> Iterator[str]:
    """Kind and id, as text, of every record of the release that names this one."""
    for other_kind, records in release.records.items():
        for other in records.values():
            if (kind, record_id) in references(other):
                yield f"{other_kind} {other.id}"
