"""The application, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from litestar import Litestar, Response

from tonnage.database import create_pool
from tonnage.settings import Settings

from .call import Call
from .context import Context, context_of
from .logs import access_log, configure_logging
from .observe import Observe
from .operations import operation_of
from .problems import answer_error
from .surface import HANDLERS, document


def create_app(settings: Settings) -> Observe:
    """The ASGI application. ``.app`` is the Litestar application inside the observing layer."""
    configure_logging(settings.log_format)
    contract = msgspec.json.encode(document())
    context = Context(settings, create_pool(settings), contract)

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        app.state.context = context
        async with context.shelf.followed():
            yield
        await context.engine.dispose()

    inner = Litestar(
        route_handlers=[
            *HANDLERS,
        ],
        lifespan=[lifespan],
        before_request=_need_key_to_read if settings.reads_need_key else None,
        exception_handlers={Exception: answer_error},
        request_max_body_size=settings.largest_body_bytes,
        openapi_config=None,
        logging_config=None,
    )
    return Observe(inner, settings.request_seconds, access_log(settings.log_format))


async def _need_key_to_read(request: Call) -> Response[bytes] | None:
    operation = operation_of(request)
    if operation is not None and not operation.is_open and operation.scope is None:
        await context_of(request).keyring.principal(request, None)
    return None
