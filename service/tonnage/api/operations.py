"""One description of each operation: the route, the contract and the checks are made from it."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import HttpMethod, Request, Response
from litestar.handlers import HTTPRouteHandler

Scope = Literal["catalog:write"]
Handler = Callable[..., Awaitable[Response[bytes]]]


class Header(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


class Example(msgspec.Struct, frozen=True):
    name: str
    summary: str
    value: dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """``answer`` and ``body`` are msgspec types; ``query`` is a struct whose fields are parameters."""

    id: str
    method: Literal["GET", "POST"]
    path: str
    tag: str
    summary: str
    description: str = ""
    path_parameters: dict[str, Any] = {}
    query: type[msgspec.Struct] | None = None
    headers: tuple[Header, ...] = ()
    body: Any = None
    examples: tuple[Example, ...] = ()
    status: int = 200
    answer: Any = None
    media_type: str = "application/json"
    answer_headers: tuple[Header, ...] = ()
    problems: tuple[int, ...] = ()
    scope: Scope | None = None
    conditional: bool = False
    """Whether it has an ETag and answers 304."""
    is_open: bool = False
    """Answered without a key even where reads need one."""


def handle(operation: Operation) -> Callable[[Handler], HTTPRouteHandler]:
    """Make a function the handler of an operation; a GET answers HEAD too."""
    methods = [HttpMethod(operation.method)]
    if operation.method == "GET":
        methods.append(HttpMethod.HEAD)

    def decorate(function: Handler) -> HTTPRouteHandler:
        return HTTPRouteHandler(
            _route(operation.path),
            http_method=methods,
            status_code=operation.status,
            name=operation.id,
            opt={"operation": operation},
            media_type=operation.media_type,
        )(function)

    return decorate


def _route(path: str) -> str:
    return path.replace("{id}", "{record_id:path}")


def operation_of(request: Request) -> Operation | None:
    handler = request.scope.get("route_handler")
    found: Operation | None = handler.opt.get("operation") if handler else None
    return found


def json_answer(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        media_type="application/json",
        headers=headers or {},
    )
