"""key create, list and revoke."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tonnage.settings import Settings

from .failures import fail

T = TypeVar("T")
SCOPES = ("catalog:write",)


def in_transaction(work: Callable[[Any], Awaitable[T]]) -> T:
    """Run with a connection to DATABASE_URL, committed at the end."""
    from tonnage.database import create_pool

    settings = Settings.read()
    if settings.database_url is None:
        settings = _local(settings)

    async def run() -> T:
        engine = create_pool(settings)
        try:
            async with engine.begin() as connection:
                return await work(connection)
        finally:
            await engine.dispose()

    return asyncio.run(run())


def _local(settings: Settings) -> Settings:
    """The database that ``tonnage up`` is running in this folder."""
    import msgspec

    from tonnage.local.postgres import address_of_running

    url = address_of_running(Path(settings.data_directory).resolve() / "postgres")
    if url is None:
        fail("DATABASE_URL is not set, and no tonnage up is running in this folder", code=3)
    return msgspec.structs.replace(settings, database_url=url)


@click.group()
def key() -> None:
    """API keys, which writes need."""


@key.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), default=SCOPES)
@click.option("--days", type=click.IntRange(1, 3650), help="Days until it ends; never if left out.")
def create(name: str, scopes: tuple[str, ...], days: int | None) -> None:
    """Make a key and print it; only its hash is stored, so it can not be shown again."""
    from datetime import UTC, datetime, timedelta

    from tonnage.api.keys import create_key

    ends = datetime.now(UTC) + timedelta(days=days) if days else None
    click.echo(in_transaction(lambda tx: create_key(tx, name, tuple(scopes), ends)))


@key.command(name="list")
@click.option("--json", "as_json", is_flag=True)
def listed(as_json: bool) -> None:
    """List keys by their prefix; no secret is shown."""
    import msgspec

    from tonnage.api.keys import list_keys

    found = in_transaction(list_keys)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return
    for held in found:
        state = "revoked" if held.revoked_at else "valid"
        click.echo(f"{held.prefix}  {state:<8} {','.join(held.scopes)}  {held.name}")


@key.command()
@click.argument("prefix")
def revoke(prefix: str) -> None:
    """End a key, by its prefix (the part between tng_ and the next underscore)."""
    from tonnage.api.keys import revoke_key

    if not in_transaction(lambda tx: revoke_key(tx, prefix)):
        fail(f"no valid key has the prefix {prefix!r}")
    click.echo(f"{prefix} is revoked; servers forget it within a minute.")
