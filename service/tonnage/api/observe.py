"""One middleware around everything: request id, time limit, access log, metrics.

It is one because each layer costs every request; it looks at no body.
"""

import asyncio
import os
import re
import time
import traceback
from collections.abc import Callable, Iterable
from functools import cache

import structlog
from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import HTTPScope, Message, Receive, Scope, Send
from prometheus_client import Counter, Histogram

from .logs import Access
from .problems import MEDIA_TYPE, problem

REQUESTS = Counter("tonnage_http_requests", "Requests answered", ["method", "operation", "status"])
SECONDS = Histogram(
    "tonnage_http_request_seconds",
    "Time to the last byte",
    ["operation"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_ACCEPTABLE_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")
_TYPED = re.compile(r":\w+\}")
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"})

log = structlog.get_logger("tonnage.api")


class Observe:
    def __init__(self, app: Litestar, seconds: float, access: Callable[[Access], None]) -> None:
        self.app = app
        self._seconds = seconds
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.HTTP:
            await self._observe(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _observe(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                if scope["method"] == "OPTIONS" and status == 204:
                    headers = _allowing(self.app, scope["path_template"], headers)
                message["headers"] = [
                    *headers,
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        try:
            async with asyncio.timeout(self._seconds):
                await self.app(scope, receive, sending)
        except TimeoutError:
            if not status:
                await _send_timeout(self._seconds, request_id, sending)
        finally:
            self._record(scope, status, time.perf_counter() - started, request_id)

    def _record(self, scope: HTTPScope, status: int, seconds: float, request_id: str) -> None:
        operation = _operation(scope)
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        _counter(method, operation, status).inc()
        _histogram(operation).observe(seconds)
        self._access(
            Access(
                request_id=request_id,
                method=method,
                operation=operation,
                status=status,
                ms=round(seconds * 1000, 3),
            )
        )
        if status >= 500:
            _log_failure(scope, request_id)


def _request_id(scope: HTTPScope) -> str:
    """The caller's, if it is a plain token; otherwise a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTABLE_ID.match(value):
            return value.decode()
    return os.urandom(16).hex()


async def _send_timeout(seconds: float, request_id: str, send: Send) -> None:
    answer = problem("request_timeout", f"no answer within {seconds:g} s", request_id=request_id)
    await send(
        {
            "type": "http.response.start",
            "status": 408,
            "headers": [(b"content-type", MEDIA_TYPE.encode()), (b"connection", b"close")],
        }
    )
    await send({"type": "http.response.body", "body": answer.content or b"", "more_body": False})


Headers = Iterable[tuple[bytes, bytes]]


def _allowing(app: Litestar, template: str, headers: Headers) -> Headers:
    """Litestar 2 lists one handler's methods on OPTIONS (its issue 4169); list the path's."""
    for path, methods in app.route_handler_method_map.items():
        if _TYPED.sub("}", path) == template:
            allow = ", ".join(sorted(methods)).encode()
            return [*((k, v) for k, v in headers if k != b"allow"), (b"allow", allow)]
    return headers


def _operation(scope: HTTPScope) -> str:
    """The operation's id; addresses that are none share one label, so labels stay few."""
    operation = getattr(scope.get("route_handler"), "opt", {}).get("operation")
    return str(operation.id) if operation is not None else "none"


@cache
def _counter(method: str, operation: str, status: int) -> Counter:
    return REQUESTS.labels(method, operation, str(status))


@cache
def _histogram(operation: str) -> Histogram:
    return SECONDS.labels(operation)


def _log_failure(scope: HTTPScope, request_id: str) -> None:
    error = scope.get("state", {}).get("error")
    if isinstance(error, BaseException):
        text = "".join(traceback.format_exception(error))
        log.error("request failed", request_id=request_id, traceback=text)
