"""Liveness, readiness and metrics."""

from typing import Literal

import msgspec
import sqlalchemy as sa
from litestar import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tonnage import __version__
from tonnage.catalog.errors import Unavailable
from tonnage.database import AWAY

from .bodies import read_query
from .call import Call
from .context import Context, context_of
from .operations import Operation, handle, json_answer
from .queries import NoQuery


class Live(msgspec.Struct, frozen=True, kw_only=True):
    status: Literal["ok"]
    version: str


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """``degraded``: estimates are answered from memory, the database is away and writes fail."""

    status: Literal["ok", "degraded", "starting"]
    catalog_release: int | None
    database: Literal["ok", "away"]


LIVE = Operation(
    id="getLive",
    method="GET",
    path="/health/live",
    tag="health",
    summary="Is the process alive?",
    query=NoQuery,
    answer=Live,
    problems=(400,),
    is_open=True,
)
READY = Operation(
    id="getReady",
    method="GET",
    path="/health/ready",
    tag="health",
    summary="Can it answer? 200 while a release is in memory, also when the database is away",
    query=NoQuery,
    answer=Ready,
    problems=(400, 503),
    is_open=True,
)
METRICS = Operation(
    id="getMetrics",
    method="GET",
    path="/metrics",
    tag="health",
    summary="Metrics in the Prometheus text format",
    query=NoQuery,
    answer=str,
    media_type="text/plain",
    problems=(400,),
    is_open=True,
)


@handle(LIVE)
async def live(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    return json_answer(Live(status="ok", version=__version__))


@handle(READY)
async def ready(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    context = context_of(request)
    release = context.shelf.latest.number  # Unavailable, 503, until one is loaded
    database = await _database(context)
    status: Literal["ok", "degraded"] = "ok" if database == "ok" else "degraded"
    return json_answer(Ready(status=status, catalog_release=release, database=database))


async def _database(context: Context) -> Literal["ok", "away"]:
    try:
        async with context.transaction() as connection:
            await connection.execute(sa.select(1))
    except (Unavailable, *AWAY):
        return "away"
    return "ok"


@handle(METRICS)
async def metrics(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


HANDLERS = [live, ready, metrics]
OPERATIONS = [LIVE, READY, METRICS]
