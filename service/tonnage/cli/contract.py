"""openapi."""

from pathlib import Path

import click

from .failures import fail

COMMITTED = Path("openapi/openapi.json")


@click.command()
@click.option("--check", is_flag=True, help=f"Fail when {COMMITTED} is not what the code makes.")
@click.option("--write", is_flag=True, help=f"Write {COMMITTED}.")
def openapi(check: bool, write: bool) -> None:
    """Print the OpenAPI 3.1 document."""
    text = rendered()
    if check:
        held = COMMITTED.read_text() if COMMITTED.is_file() else ""
        if held != text:
            fail(f"{COMMITTED} is not what the code makes: tonnage openapi --write", code=1)
        click.echo(f"{COMMITTED} is what the code makes.")
    elif write:
        COMMITTED.parent.mkdir(exist_ok=True)
        COMMITTED.write_text(text)
    else:
        click.echo(text, nl=False)


def rendered() -> str:
    import msgspec

    from tonnage.api.surface import document

    return msgspec.json.format(msgspec.json.encode(document()), indent=1).decode() + "\n"
