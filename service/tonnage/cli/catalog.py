"""catalog: read the seed or the database, publish, import."""

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from tonnage.catalog.kinds import RECORD_TYPES
from tonnage.settings import Settings

from .failures import fail
from .key import in_transaction

KIND = click.Choice(list(RECORD_TYPES))


def _release(number: int | None) -> Any:
    """The database's release where there is a database, the seed otherwise."""
    if Settings.read().database_url is None:
        from tonnage.catalog.seed import seed_release

        if number not in (None, 1):
            fail("without DATABASE_URL only release 1, the seed in this package, can be read")
        return seed_release()
    from tonnage.catalog.store import latest_number, read_release

    async def read(tx: Any) -> Any:
        return await read_release(tx, number or await latest_number(tx))

    return in_transaction(read)


def _show(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


@click.group()
def catalog() -> None:
    """The versioned catalog. Without DATABASE_URL, the seed in this package is read."""


@catalog.command(name="list")
@click.argument("kind", type=KIND)
@click.option("--q", "text", help="Words to look for.")
@click.option("--release", "number", type=int)
@click.option("--json", "as_json", is_flag=True)
def listed(kind: Any, text: str | None, number: int | None, as_json: bool) -> None:
    """List records of a kind."""
    from tonnage.catalog.search import search

    release = _release(number)
    found = search(release, kind, text, {})
    if as_json:
        _show(found)
        return
    for record in found:
        click.echo(f"{record.id}  {record.name}")
    if not found and text:
        close = release.suggest(kind, text)
        fail(f"nothing matches{'; did you mean ' + ' or '.join(close) if close else ''}")


@catalog.command()
@click.argument("kind", type=KIND)
@click.argument("name")
@click.option("--release", "number", type=int)
def show(kind: Any, name: str, number: int | None) -> None:
    """One record, as JSON, by id or alias."""
    _show(_release(number).resolve(kind, name).record)


@catalog.command()
@click.option("--json", "as_json", is_flag=True)
def releases(as_json: bool) -> None:
    """List the database's releases, newest first."""
    from tonnage.catalog.store import list_releases

    found = in_transaction(lambda tx: list_releases(tx, limit=1000))
    if as_json:
        _show(found)
        return
    for info in found:
        click.echo(f"{info.number}  {info.published_at:%Y-%m-%d}  {info.author}: {info.message}")


@catalog.command()
@click.argument("older", type=int)
@click.argument("newer", type=int)
def diff(older: int, newer: int) -> None:
    """What changed between two releases of the database, as JSON."""
    from tonnage.catalog.differences import difference_between
    from tonnage.catalog.store import read_release

    async def compare(tx: Any) -> Any:
        return difference_between(await read_release(tx, older), await read_release(tx, newer))

    _show(in_transaction(compare))


@catalog.command()
@click.argument("file", type=click.File("rb"))
@click.option("--against", type=int, required=True, help="The release it was drawn up against.")
@click.option("--author", default="command line", show_default=True)
def publish(file: Any, against: int, author: str) -> None:
    """Publish a change set (the body of POST /v1/catalog/releases) as the next release."""
    from tonnage.catalog.changes import ChangeSet
    from tonnage.catalog.errors import UnsoundChange
    from tonnage.catalog.store import publish as published
    from tonnage.decoding import decode

    change_set = decode(file.read(), ChangeSet)
    try:
        made = in_transaction(lambda tx: published(tx, change_set, against=against, author=author))
        _show(made.info)
    except UnsoundChange as unsound:
        fail("; ".join(f"{pointer}: {finding}" for pointer, finding in unsound.findings))


@catalog.command(name="import-model")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--id", "record_id", help="The record's id; the file's name if left out.")
def import_model(path: Path, record_id: str | None) -> None:
    """Make a model record from a config.json, a model folder or a .gguf file.

    Prints the record; nothing is stored and no code of the model is run.
    """
    from tonnage.catalog.importing.files import request_from_path
    from tonnage.catalog.importing.records import import_model as imported

    found = imported(request_from_path(path, record_id))
    for finding in found.findings:
        click.echo(f"tonnage: {finding}", err=True)
    _show(found.record)


@catalog.command()
@click.option("--write", is_flag=True, help="Renew the digest that is kept beside the seed files.")
def review(write: bool) -> None:
    """Hold every record of the seed against its kind's rules."""
    from tonnage.catalog import seed
    from tonnage.catalog.release import Release
    from tonnage.catalog.review import review as reviewed

    release = Release(1, seed.seed_records())
    if write:
        Path(seed.__file__).with_name(seed.DIGEST).write_text(release.digest + "\n")
    count = 0
    for kind, records in release.records.items():
        for record_id, record in records.items():
            for finding in reviewed(record, release):
                count += 1
                click.echo(f"{kind} {record_id}: {finding}")
    if count:
        sys.exit(1)
    click.echo("Every record holds up.")
