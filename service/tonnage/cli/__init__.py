"""The command line. Each command imports what it needs when it runs, so that answers come at once.

Exit codes: 0 done, or it fits; 1 an error of ours; 2 a request or an option that is not right;
3 the database or the port is not to be had; 10 tight; 11 does not fit.
"""

import sys
from typing import Any

import click

from .failures import failing

COMMANDS = {
    "up": "tonnage.cli.serving:up",
    "serve": "tonnage.cli.serving:serve",
    "migrate": "tonnage.cli.serving:migrate",
    "openapi": "tonnage.cli.contract:openapi",
    "fit": "tonnage.cli.fit:fit",
    "catalog": "tonnage.cli.catalog:catalog",
    "key": "tonnage.cli.key:key",
    "evaluate": "tonnage.cli.evaluate:evaluate",
}


class _Lazy(click.Group):
    """Imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        __import__(module)
        found: click.Command = getattr(sys.modules[module], name)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        with failing():
            return super().invoke(ctx)


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tonnage", prog_name="tonnage")
def main() -> None:
    """Plan GPU capacity for AI: will it fit, from a versioned catalog.

    \b
    Exit codes:
       0 done, or it fits
       1 an error of ours
       2 a request or an option that is not right
       3 the database or the port is not to be had
      10 tight
      11 does not fit
    """
