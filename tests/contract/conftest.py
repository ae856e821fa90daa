"""The service that the contract test publishes to."""

from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from tests.addresses import on_database, sqlalchemy_url
from tests.service import key_for, running_service
from tonnage.local.postgres import Server
from tonnage.settings import Settings


class Target(NamedTuple):
    """Where requests go, and the key that they carry."""

    url: str
    key: str | None = None


@pytest.fixture(scope="session")
def publishing(postgres_server: Server, seeded_template: str) -> Iterator[Target]:
    """A service for the tests that publish, which take its latest release as they find it."""
    name = "publishing_tonnage"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
                sql.Identifier(name), sql.Identifier(seeded_template)
            )
        )
    url = sqlalchemy_url(on_database(postgres_server.url, name))
    settings = Settings(database_url=url, log_format="none")
    with running_service(settings) as service:
        yield Target(service.url, key_for(settings, "contract"))
