"""Does a record hold up? Findings are plain sentences; a sound record has none."""

from typing import TYPE_CHECKING, cast

from tonnage.catalog.kinds import (
    AcceleratorRecord,
    AnyRecord,
    FormatRecord,
    HostedApiRecord,
    Kind,
    LinkRecord,
    MachineRecord,
    ModelRecord,
    OfferRecord,
    RuntimeRecord,
    SiteRecord,
)

from . import hardware
from .formats import review_format
from .models import review_model

if TYPE_CHECKING:
    from tonnage.catalog.release import Release

NAMED_EXACTLY: frozenset[Kind] = frozenset({"hosted-apis", "offers"})
"""Kinds whose ids differ by punctuation alone (``zai/glm-4.6`` and ``z-ai/glm-4.6``)."""


def review(record: AnyRecord, release: "Release") -> list[str]:
    """What is wrong with a record, seen beside the others of its release."""

    def lookup(kind: str, record_id: str) -> AnyRecord | None:
        return release.records[cast(Kind, kind)].get(record_id)

    match record:
        case ModelRecord():
            findings = review_model(record)
            if lookup("formats", record.checkpoint_format) is None:
                findings.append(f"checkpoint_format {record.checkpoint_format!r} is no format")
        case AcceleratorRecord():
            findings = hardware.review_accelerator(record, lookup)
        case LinkRecord():
            findings = hardware.review_link(record, lookup)
        case MachineRecord():
            findings = hardware.review_machine(record, lookup)
        case OfferRecord():
            findings = hardware.review_offer(record, lookup)
        case HostedApiRecord():
            findings = hardware.review_hosted_api(record, lookup)
        case SiteRecord():
            findings = hardware.review_site(record, lookup)
        case RuntimeRecord():
            findings = hardware.review_runtime(record, lookup)
        case FormatRecord():
            findings = review_format(record)
    return findings + _review_names(record, release)


def _review_names(record: AnyRecord, release: "Release") -> list[str]:
    """No id, alias or default of a record may mean another record of the same kind."""
    kind = cast(Kind, record.__struct_config__.tag)
    if kind in NAMED_EXACTLY:
        return []
    found = []
    for name in (record.id, *record.aliases):
        owners = [owner for owner in release.owners(kind, name) if owner != record.id]
        found += [f"{name!r} also means {owner}" for owner in owners]
    for name in record.default_for:
        rivals = [rival for rival in release.defaults(kind, name) if rival != record.id]
        found += [f"{rival} is already the default for {name!r}" for rival in rivals]
    return found
