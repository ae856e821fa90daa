"""Everything that is served: the handlers of every resource and the contract made of them."""

from typing import Any

from litestar.handlers import HTTPRouteHandler

from . import docs, fit, health, imports, records, releases
from .contract import document as document_of
from .operations import Operation

_RESOURCES = (fit, imports, records, releases, health, docs)

HANDLERS: list[HTTPRouteHandler] = [h for resource in _RESOURCES for h in resource.HANDLERS]
OPERATIONS: list[Operation] = [o for resource in _RESOURCES for o in resource.OPERATIONS]


def document() -> dict[str, Any]:
    return document_of(OPERATIONS)
