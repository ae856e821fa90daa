"""Runs migrations one transaction each, one runner at a time, never waiting long for a lock.

The URL comes from ``config.attributes["url"]`` (the command line and the tests set it) or from
``DATABASE_URL``; psycopg is synchronous here, so no event loop is needed.
"""

from typing import Any

import sqlalchemy as sa
from alembic import context

from tonnage.catalog.tables import metadata
from tonnage.settings import Settings

config = context.config


def configure(**options: Any) -> None:
    context.configure(
        target_metadata=metadata,
        transaction_per_migration=True,
        compare_server_default=True,
        compare_type=True,
        **options,
    )


def run() -> None:
    connection = config.attributes.get("connection")
    if connection is not None:
        configure(connection=connection)
        with context.begin_transaction():
            context.run_migrations()
        return
    url = config.attributes.get("url") or Settings.read().sqlalchemy_url
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as opened:
        opened.execute(sa.text("SET lock_timeout = '4s'"))
        opened.execute(sa.text("SELECT pg_advisory_lock(hashtext('tonnage.migrations'))"))
        opened.commit()
        configure(connection=opened)
        with context.begin_transaction():
            context.run_migrations()
        opened.execute(sa.text("SELECT pg_advisory_unlock(hashtext('tonnage.migrations'))"))
        opened.commit()


if context.is_offline_mode():
    configure(url="postgresql://", literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()
else:
    run()
