"""As which system account may the server run, and which folders can that account reach?

PostgreSQL refuses to run as root. Started by root, it therefore runs as `nobody`, an account that
every system has: no account is created, and no permission outside our own folder is changed.
"""

import hashlib
import os
import pwd
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tonnage.local.errors import PostgresError

# Survives a reboot, and every account may enter it: /tmp often fails the first, $HOME the second.
STABLE_PLACE = Path("/var/tmp")


class SwitchTo(TypedDict, total=False):
    """The keyword arguments that make `subprocess` start a program as another account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Account:
    """Who owns the server's files and processes; `switch` is empty when that is ourselves."""

    switch: SwitchTo

    def own(self, path: Path) -> None:
        """Hand one file or folder of ours to the account."""
        if self.switch:
            os.chown(path, self.switch["user"], self.switch["group"])

    def can_enter(self, path: Path) -> bool:
        """May it enter that folder, or run that program?

        The kernel is asked, as that account: reading mode bits would miss access lists.
        """
        if not self.switch:
            return os.access(path, os.X_OK)
        question = ["/bin/sh", "-c", 'test -x "$0"', str(path)]
        return subprocess.run(question, cwd="/", check=False, **self.switch).returncode == 0


def account_for(data_directory: Path) -> Account:
    """Ourselves; for root, the account that already owns the data, else `nobody`.

    Keeping the owner lets `sudo make run` follow a plain `make run` in the same checkout.
    """
    if os.geteuid() != 0:
        return Account({})
    owner = data_directory.stat() if data_directory.exists() else None
    if owner is not None and owner.st_uid != 0:
        return Account({"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []})
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise PostgresError(
            "PostgreSQL does not run as root and this system has no account `nobody` to run it "
            "as; start Tonnage as an ordinary user, or set DATABASE_URL to a server of yours."
        ) from None
    return Account({"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []})


def reachable(data_directory: Path, account: Account) -> Path:
    """The data directory to use: the one asked for, or a stable one that the account can enter."""
    home = data_directory.parent
    home.mkdir(parents=True, exist_ok=True)
    if account.can_enter(home):
        return data_directory
    other = own_folder(data_directory) / data_directory.name
    print(
        f"tonnage: PostgreSQL's account can not enter {home}, so its data is in {other}",
        file=sys.stderr,
    )
    return other


def own_folder(purpose: Path) -> Path:
    """A folder of ours in a place that every account can enter, always the same for one path."""
    digest = hashlib.sha256(os.fsencode(purpose)).hexdigest()[:12]
    folder = STABLE_PLACE / f"tonnage-{os.geteuid()}-{digest}"
    folder.mkdir(mode=0o711, exist_ok=True)
    found = folder.lstat()
    # The name can be guessed and anyone may write there: never trust a folder that another made.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PostgresError(
            f"{folder} belongs to another user, so Tonnage will not keep a database there; "
            "remove it and start again."
        )
    folder.chmod(0o711)  # mkdir's mode passes through the umask
    return folder
