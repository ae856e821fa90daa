"""Everything on one machine: a database of our own, migrated and seeded, and the service on it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tonnage.settings import Settings


@contextmanager
def database(settings: Settings, *, durable: bool = True) -> Iterator[Settings]:
    """Settings with a DATABASE_URL that answers: the given one, or a server started here."""
    if settings.database_url is not None:
        yield settings
        return
    from .postgres import running

    folder = Path(settings.data_directory).resolve() / "postgres"
    with running(folder, durable=durable) as server:
        yield msgspec.structs.replace(settings, database_url=server.url)


def prepare(settings: Settings) -> str:
    """Migrate, load what the seed has anew, and say in one line what was done."""
    from tonnage.migrations import upgrade

    upgrade(settings.sqlalchemy_url)
    return asyncio.run(seed(settings))


async def seed(settings: Settings) -> str:
    from tonnage.catalog.seeding import load_seed
    from tonnage.catalog.store import latest_number
    from tonnage.database import create_pool

    engine = create_pool(settings, statement_seconds=60)
    try:
        async with engine.begin() as connection:
            made = await load_seed(connection)
            if made is not None:
                return f"The seed catalog was loaded as release {made.number}."
            return f"The catalog is at release {await latest_number(connection)}."
    finally:
        await engine.dispose()
