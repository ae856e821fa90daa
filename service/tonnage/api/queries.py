"""What may be asked in a query string."""

from typing import Annotated

import msgspec

from tonnage.catalog.kinds import Kind

from .paging import Cursor, Limit

ReleaseNumber = Annotated[
    int,
    msgspec.Meta(ge=1, le=10**9, description="A release of the catalog; the latest if left out."),
]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Search = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        description="Words that must all occur in id, name, aliases or family; case and "
        "punctuation do not matter.",
    ),
]
Memory = Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1, description="Bytes of one accelerator.")]


class NoQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing may be asked."""


class AtRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    release: ReleaseNumber | None = None


class ListQuery(AtRelease, frozen=True, kw_only=True):
    limit: Limit = 50
    after: Cursor | None = None
    q: Search | None = None


class ByFamily(ListQuery, frozen=True, kw_only=True):
    vendor: Text | None = None
    family: Text | None = None


class ByMemory(ByFamily, frozen=True, kw_only=True):
    min_memory_bytes: Memory | None = None
    max_memory_bytes: Memory | None = None


class ByProvider(ListQuery, frozen=True, kw_only=True):
    provider: Text | None = None
    region: Text | None = None
    accelerator: Text | None = None


class ByHost(ListQuery, frozen=True, kw_only=True):
    provider: Text | None = None
    model: Text | None = None


class ByRegion(ListQuery, frozen=True, kw_only=True):
    region: Text | None = None
    topic: Text | None = None


class ReleasesQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Limit = 50
    before: ReleaseNumber | None = None
    """Releases older than this number."""


LISTS: dict[Kind, type[ListQuery]] = {
    "models": ByFamily,
    "accelerators": ByMemory,
    "machines": ByProvider,
    "links": ListQuery,
    "offers": ByProvider,
    "hosted-apis": ByHost,
    "runtimes": ListQuery,
    "formats": ListQuery,
    "sites": ByRegion,
}
