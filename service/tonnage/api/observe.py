"""One middleware around everything: request id, time limit, access log, metrics.

It is one because each layer costs every request; it looks at no body.
"""

import asyncio
import re
import time
import traceback
import uuid

import msgspec
import structlog
from litestar import Litestar
from litestar.enums import ScopeType
from litestar.types import HTTPScope, Message, Receive, Scope, Send
from prometheus_client import Counter, Histogram

from .problems import MEDIA_TYPE, problem

REQUESTS = Counter("tonnage_http_requests", "Requests answered", ["method", "operation", "status"])
SECONDS = Histogram(
    "tonnage_http_request_seconds",
    "Time to the last byte",
    ["operation"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_ACCEPTABLE_ID = re.compile(rb"^[A-Za-z0-9._-]{1,64}$")
_METHODS = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE"})

log = structlog.get_logger("tonnage.access")


class Observe:
    def __init__(self, app: Litestar, seconds: float) -> None:
        self.app = app
        self._seconds = seconds

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
                headers = [(k, v) for k, v in message["headers"]]
                headers.append((b"x-request-id", request_id.encode()))
                headers.append((b"x-content-type-options", b"nosniff"))
                message["headers"] = headers
            await send(message)

        try:
            async with asyncio.timeout(self._seconds):
                await self.app(scope, receive, sending)
        except TimeoutError:
            if not status:
                await _send_timeout(self._seconds, request_id, sending)
        finally:
            _record(scope, status, time.perf_counter() - started, request_id)


def _request_id(scope: HTTPScope) -> str:
    """The caller's, if it is a plain token; otherwise a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTABLE_ID.match(value):
            return value.decode()
    return uuid.uuid4().hex


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


def _record(scope: HTTPScope, status: int, seconds: float, request_id: str) -> None:
    handler = scope.get("route_handler")
    operation = getattr(handler, "opt", {}).get("operation")
    name = operation.id if operation is not None else "none"
    method = scope["method"] if scope["method"] in _METHODS else "OTHER"
    REQUESTS.labels(method, name, str(status)).inc()
    SECONDS.labels(name).observe(seconds)
    fields = {
        "request_id": request_id,
        "method": method,
        "operation": name,
        "status": status,
        "ms": round(seconds * 1000, 3),
    }
    error = scope.get("state", {}).get("error")
    if error is not None:
        log.error("request failed", **fields, traceback=_traceback(error))
    else:
        log.info("request", **fields)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def configure_logging(style: str) -> None:
    """``json``: one object a line; ``plain``: for a person's terminal; ``none``: errors only."""
    processors: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    factory: object
    if style == "plain":
        processors.append(structlog.dev.ConsoleRenderer(colors=False))
        factory = structlog.PrintLoggerFactory()
    else:
        processors.append(structlog.processors.JSONRenderer(serializer=_encoded))
        factory = structlog.BytesLoggerFactory()
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger("error" if style == "none" else "info"),
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )


def _encoded(event: object, **_options: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)
