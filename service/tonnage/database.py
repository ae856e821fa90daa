"""The one connection pool of a worker."""

from typing import Any

import psycopg
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from .settings import Settings

AWAY = (
    exc.OperationalError,
    exc.InterfaceError,
    exc.TimeoutError,
    psycopg.OperationalError,
    OSError,
)
"""What is raised when PostgreSQL does not answer; anything else is a fault of ours."""


def create_pool(settings: Settings, *, statement_seconds: int = 5) -> AsyncEngine:
    """Statements end after ``statement_seconds``, idle transactions after 10 s: rows come free."""
    arguments: dict[str, Any] = {
        "connect_timeout": 3,
        "application_name": "tonnage",
        "options": f"-c statement_timeout={statement_seconds * 1000} "
        "-c idle_in_transaction_session_timeout=10000",
    }
    if settings.pooler_in_front:
        arguments["prepare_threshold"] = None
    return create_async_engine(
        settings.sqlalchemy_url,
        pool_size=settings.pool_size,
        max_overflow=0,
        pool_timeout=2,
        pool_pre_ping=True,
        pool_recycle=1800,
        connect_args=arguments,
    )
