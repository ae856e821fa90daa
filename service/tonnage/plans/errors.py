"""A name in a request that means nothing."""

from tonnage.catalog.kinds import Kind
from tonnage.catalog.names import did_you_mean


class UnknownName(Exception):
    code = "unknown_name"

    def __init__(self, kind: Kind, name: str, suggestions: tuple[str, ...], pointer: str) -> None:
        noun = kind.removesuffix("s").replace("-", " ")
        super().__init__(f"no {noun} {name!r} in the catalog.{did_you_mean(suggestions)}")
        self.kind = kind
        self.name = name
        self.suggestions = suggestions
        self.pointer = pointer
