"""One description of each operation: the route, the contract and the checks are made from it."""

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec
from litestar import HttpMethod, Response
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Send
from litestar.types import Scope as ASGIScope

from .call import Call

Scope = Literal["catalog:write"]
Handler = Callable[..., Awaitable[Response[bytes]] | Awaitable[ASGIApp]]


class Header(msgspec.Struct, frozen=True):
    name: str
    description: str
    schema: dict[str, Any]
    required: bool = False


class Example(msgspec.Struct, frozen=True):
    name: str
    summary: str
    value: dict[str, Any]


class Link(msgspec.Struct, frozen=True):
    """What can be asked next with what an answer says (OpenAPI links)."""

    name: str
    operation: str
    parameters: dict[str, Any]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """``answer`` and ``body`` are msgspec types, ``query`` a struct of parameters."""

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
    links: tuple[Link, ...] = ()
    problems: tuple[int, ...] = ()
    scope: Scope | None = None
    conditional: bool = False
    """Whether it has an ETag and answers 304."""
    is_open: bool = False
    """Answered without a key even where reads need one."""


_PARAMETER = re.compile(r"\{(\w+)\}")
_TYPES = {"id": "{record_id:path}"}


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
    """Litestar wants types; an id may hold slashes, and what is not a number is refused by us."""
    return _PARAMETER.sub(lambda found: _TYPES.get(found[1], f"{{{found[1]}:str}}"), path)


def operation_of(request: Call) -> Operation | None:
    handler = request.scope.get("route_handler")
    found: Operation | None = handler.opt.get("operation")
    return found


def answered(value: Any) -> ASGIApp:
    """A 200 with JSON, by the shortest way: for the operation that is asked most."""
    body = msgspec.json.encode(value)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]

    async def respond(_scope: ASGIScope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return respond


def json_answer(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> Response[bytes]:
    return Response(
        msgspec.json.encode(value),
        status_code=status,
        media_type="application/json",
        headers=headers or {},
    )
