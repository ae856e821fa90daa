"""up, serve and migrate."""

import os
import signal
import sys

import click
import msgspec

from tonnage.settings import Settings

from .failures import fail


def _settings(**changes: object) -> Settings:
    given = {name: value for name, value in changes.items() if value is not None}
    return msgspec.structs.replace(Settings.read(), **given)


@click.command()
@click.option("--host", help="Address to listen on (TONNAGE_HOST; 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (PORT; 8000).")
def up(host: str | None, port: int | None) -> None:
    """Start everything: a database (or DATABASE_URL's), its schema, the seed catalog, the service.

    Ctrl-C stops all that was started; the data stays in TONNAGE_DATA_DIRECTORY (.tonnage).
    """
    from tonnage.api.serve import listen, serve
    from tonnage.local.up import database, prepare

    settings = _settings(host=host, port=port)
    if "TONNAGE_LOG_FORMAT" not in os.environ:
        settings = msgspec.structs.replace(settings, log_format="plain")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds, so the database is stopped
    opened = listen(settings.host, settings.port)
    with opened, database(settings) as ready:
        click.echo(prepare(ready))
        click.echo(_welcome(settings.host, settings.port))
        serve(ready, opened)
    click.echo("Stopped; the catalog is kept.")


def _welcome(host: str, port: int) -> str:
    address = f"http://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{port}"  # noqa: S104
    return (
        f"Documentation: {address}/docs\n"
        "Try:\n"
        f"curl -s {address}/v1/fit/inference -H 'Content-Type: application/json' -d '"
        '{"model": "meta-llama/Llama-3.1-8B-Instruct", "hardware": {"accelerator": "nvidia-l4"}, '
        '"runtime": {"name": "vllm", "version": "0.11.0"}, "workload": {"context_tokens": 8192, '
        '"concurrent_sequences": 2}}\'\n'
        "Ctrl-C stops it."
    )


@click.command(name="serve")
@click.option("--host", help="Address to listen on (TONNAGE_HOST; 127.0.0.1).")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on (PORT; 8000).")
def serve(host: str | None, port: int | None) -> None:
    """Serve on the database of DATABASE_URL, which must be migrated (tonnage migrate)."""
    from tonnage.api.serve import listen
    from tonnage.api.serve import serve as answer

    settings = _settings(host=host, port=port)
    if settings.database_url is None:
        fail("DATABASE_URL is not set; tonnage up starts a database of its own")
    with listen(settings.host, settings.port) as opened:
        answer(settings, opened)


@click.command()
@click.option(
    "--check", is_flag=True, help="Change nothing; fail when tables and migrations differ."
)
@click.option("--seed/--no-seed", default=True, help="Load the seed catalog's changes afterwards.")
def migrate(check: bool, seed: bool) -> None:
    """Bring DATABASE_URL's database to this version's schema and seed.

    With --check and no DATABASE_URL, a database is started for the occasion.
    """
    import tempfile

    from tonnage.local.up import database, prepare
    from tonnage.migrations import drift, upgrade

    settings = _settings()
    if not check:
        if settings.database_url is None:
            fail("DATABASE_URL is not set; tonnage up starts a database of its own")
        if seed:
            click.echo(prepare(settings))
        else:
            upgrade(settings.sqlalchemy_url)
        return
    with tempfile.TemporaryDirectory() as folder:
        aside = _settings(data_directory=folder)
        with database(aside, durable=False) as ready:
            if settings.database_url is None:
                upgrade(ready.sqlalchemy_url)
            found = drift(ready.sqlalchemy_url)
    if found:
        fail("the tables and the migrations differ: " + "; ".join(found), code=1)
    click.echo("Tables and migrations agree.")
