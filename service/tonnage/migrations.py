"""Bringing a database to this build's schema, and telling whether it is there."""

from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tonnage.catalog.tables import metadata


def migrations_folder() -> Path:
    """Beside the package in a checkout; in the working directory in the container image."""
    checkout = Path(__file__).resolve().parents[2] / "migrations"
    return checkout if checkout.is_dir() else Path("migrations").resolve()


def configuration(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def upgrade(url: str, revision: str = "head") -> None:
    command.upgrade(configuration(url), revision)


def head() -> str | None:
    return ScriptDirectory.from_config(configuration("")).get_current_head()


def drift(url: str) -> list[str]:
    """Operations that the tables ask for and the migrations do not make; empty when they agree."""
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        return [str(difference) for difference in compare_metadata(context, metadata)]
