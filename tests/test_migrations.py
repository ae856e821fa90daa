"""Migrations make the tables, one after another, and can be taken back."""

import asyncio

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory

from tests.addresses import psycopg_url
from tonnage.local.up import seed
from tonnage.migrations import configuration, drift, upgrade
from tonnage.settings import Settings


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory.from_config(configuration("")).get_heads()) == 1


def test_migrated_tables_are_those_of_the_code(database_url: str) -> None:
    assert drift(database_url) == []


def test_drift_is_found(database_url: str) -> None:
    with psycopg.connect(psycopg_url(database_url), autocommit=True) as connection:
        connection.execute("ALTER TABLE api_key DROP COLUMN expires_at")
    assert any("expires_at" in found for found in drift(database_url))


def test_down_and_up_again_leaves_the_same_tables(database_url: str) -> None:
    command.downgrade(configuration(database_url), "base")
    with sa.create_engine(database_url, poolclass=sa.NullPool).connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    upgrade(database_url)
    assert drift(database_url) == []


def test_upgrading_twice_and_seeding_twice_changes_nothing(database_url: str) -> None:
    upgrade(database_url)
    settings = Settings(database_url=database_url)
    first = asyncio.run(seed(settings))
    second = asyncio.run(seed(settings))
    assert first == "The seed catalog was loaded as release 1."
    assert second == "The catalog is at release 1."
