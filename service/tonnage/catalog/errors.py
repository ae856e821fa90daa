"""What can go wrong with the catalog.

CatalogError
├── UnknownRecord     no record of that kind has that name
├── UnknownRelease    no release has that number
├── StaleRelease      the change set was drawn up against an older release
├── UnsoundChange     a record in the change set does not hold up
├── ReusedKey         an Idempotency-Key came back with another change set
└── Unavailable       PostgreSQL does not answer
"""

from .names import did_you_mean


class CatalogError(Exception):
    code = "catalog_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class UnknownRecord(CatalogError):
    code = "unknown_record"

    def __init__(self, kind: str, name: str, suggestions: tuple[str, ...]) -> None:
        singular = kind.removesuffix("s").replace("-", " ")
        super().__init__(f"no {singular} {name[:200]!r}.{did_you_mean(suggestions)}")
        self.kind = kind
        self.name = name
        self.suggestions = suggestions


class UnknownRelease(CatalogError):
    code = "unknown_release"


class StaleRelease(CatalogError):
    code = "stale_release"

    def __init__(self, expected: int, latest: int) -> None:
        super().__init__(
            f"the change set is against release {expected}, the latest is {latest}: "
            "read what changed, then publish against it"
        )
        self.latest = latest


class UnsoundChange(CatalogError):
    """``findings`` are pairs of a JSON pointer into the change set and a sentence."""

    code = "unsound_change"

    def __init__(self, findings: list[tuple[str, str]]) -> None:
        super().__init__("the change set does not hold up; nothing was published")
        self.findings = findings


class ReusedKey(CatalogError):
    code = "idempotency_key_reused"


class Unavailable(CatalogError):
    code = "catalog_unavailable"
