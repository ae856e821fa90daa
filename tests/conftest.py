"""Fixtures of the whole suite. PostgreSQL and the service are real; nothing of ours is mocked."""

import asyncio
from collections.abc import Iterator

import httpx
import psycopg
import pytest
from psycopg import sql

from tests.addresses import on_database, sqlalchemy_url
from tests.service import Service, key_for, running_service
from tonnage.catalog.release import Release
from tonnage.catalog.seed import seed_release
from tonnage.local.postgres import Server
from tonnage.local.up import seed as load_seed
from tonnage.settings import Settings

pytest_plugins = ["tests.postgres"]

SEEDED = "seeded_tonnage"


@pytest.fixture(scope="session")
def seed() -> Release:
    """The seed catalog as release 1, without a database."""
    return seed_release()


@pytest.fixture(scope="session")
def seeded_template(postgres_server: Server, template_database: str) -> str:
    """The name of a migrated database that holds the seed as release 1."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template_tonnage STRATEGY file_copy").format(
                sql.Identifier(SEEDED)
            )
        )
    url = sqlalchemy_url(on_database(postgres_server.url, SEEDED))
    asyncio.run(load_seed(Settings(database_url=url)))
    return SEEDED


@pytest.fixture
def seeded_url(postgres_server: Server, seeded_template: str) -> Iterator[str]:
    """A database of this test's own that holds the seed."""
    name = "own_tonnage"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(name), sql.Identifier(seeded_template)
            )
        )
        yield sqlalchemy_url(on_database(postgres_server.url, name))
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def shared_service(postgres_server: Server, seeded_template: str) -> Iterator[Service]:
    """One service for the tests that only read."""
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE shared_tonnage TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(seeded_template)
            )
        )
    url = sqlalchemy_url(on_database(postgres_server.url, "shared_tonnage"))
    with running_service(Settings(database_url=url, log_format="none")) as service:
        yield service


@pytest.fixture
def api(shared_service: Service) -> Iterator[httpx.Client]:
    """A client of the shared service."""
    with httpx.Client(base_url=shared_service.url, timeout=30) as client:
        yield client


@pytest.fixture
def service(seeded_url: str) -> Iterator[Service]:
    """A service of this test's own, for what it publishes."""
    settings = Settings(database_url=seeded_url, log_format="none")
    with running_service(settings) as found:
        yield found


@pytest.fixture
def writer(service: Service) -> Iterator[httpx.Client]:
    """A client of that service with a key that may publish."""
    key = key_for(service.settings, "tests")
    with httpx.Client(
        base_url=service.url, headers={"Authorization": f"Bearer {key}"}, timeout=30
    ) as client:
        yield client
