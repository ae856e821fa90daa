"""Everything that is served: the handlers of every resource and the contract made of them."""

from typing import Any

import msgspec
from litestar.handlers import HTTPRouteHandler

from . import docs, fit, health, imports, records, releases
from .contract import document as document_of
from .operations import Operation

_RESOURCES = (fit, imports, records, releases, health, docs)

HANDLERS: list[HTTPRouteHandler] = [h for resource in _RESOURCES for h in resource.HANDLERS]
OPERATIONS: list[Operation] = [o for resource in _RESOURCES for o in resource.OPERATIONS]


def document() -> dict[str, Any]:
    """As JSON reads it, without tuples."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document_of(OPERATIONS)))
    return found
