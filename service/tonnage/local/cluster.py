"""What lies on disk: is there a usable data directory, whose is it, and is a server still on it?

The folder above the data directory is its home, and holds two files beside it: `postgres.log`,
what the server said since the last start, and `postgres.password`, which only its account can read.
"""

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tonnage.local.account import Account
from tonnage.local.binaries import Binaries
from tonnage.local.errors import PostgresError, not_made

ROLE = "tonnage"
SHUTDOWN_SECONDS = 30


@dataclass(frozen=True)
class Cluster:
    """One data directory, with the account and the programs that serve it."""

    data: Path
    account: Account
    binaries: Binaries

    @property
    def home(self) -> Path:
        """The folder that is ours to write in; the data directory is the server's."""
        return self.data.parent

    @property
    def log(self) -> Path:
        """What the server said since the last start."""
        return self.home / "postgres.log"

    @property
    def password_file(self) -> Path:
        """The password of the one role that there is."""
        return self.home / "postgres.password"

    @property
    def environment(self) -> dict[str, str]:
        """None of the caller's PG* variables or locale: a server must not depend on a shell."""
        path = os.environ.get("PATH", os.defpath)
        return {"PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def prepare(self, *, durable: bool) -> None:
        """Make the data directory when there is none, else see that these programs can open it."""
        if self._is_new():
            self._create(durable=durable)
        else:
            self._check()
        self._empty_log()

    def password(self) -> str:
        """What `initdb` was told, as clients need it again at every later start."""
        if not self.password_file.exists():
            raise PostgresError(
                f"The database in {self.data} is there but its password is not "
                f"({self.password_file} is missing); restore that file, or move the folder away "
                "to begin with an empty database."
            )
        return self.password_file.read_text().strip()

    def _is_new(self) -> bool:
        return not self.data.exists() or (self.data.is_dir() and not any(self.data.iterdir()))

    def _create(self, *, durable: bool) -> None:
        """Renamed when complete, so that an interrupted start leaves nothing half made."""
        draft = self.home / f".{self.data.name}.new"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        self.account.own(draft)
        self._write_password()
        # No `--auth trust`: any local user could then connect, and so own the catalog.
        command: list[str | Path] = [self.binaries.initdb, "-D", draft, "-U", ROLE, "-E", "UTF8"]
        command += ["--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={self.password_file}"]
        command += ["--no-instructions"] if durable else ["--no-instructions", "--no-sync"]
        made = subprocess.run(
            command,
            cwd=draft,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            start_new_session=True,
            **self.account.switch,
        )
        if made.returncode != 0:
            shutil.rmtree(draft, ignore_errors=True)
            with suppress(OSError):  # on a full disk the sentence matters more than the log
                self._empty_log()
                self.log.write_text(made.stdout)
            raise not_made(made.stdout, self.data, self.log)
        draft.rename(self.data)

    def _write_password(self) -> None:
        self.password_file.unlink(missing_ok=True)
        # Never through a file or link that was there before us.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(self.password_file, flags, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
        self.account.own(self.password_file)

    def _empty_log(self) -> None:
        self.log.unlink(missing_ok=True)
        self.log.touch(mode=0o600)
        self.account.own(self.log)

    def _check(self) -> None:
        mark = self.data / "PG_VERSION"
        if self.data.is_dir() and not mark.exists():
            raise PostgresError(
                f"{self.data} is not empty and is not a PostgreSQL data directory (it has no "
                "PG_VERSION); move it away, or name another folder."
            )
        made_by = mark.read_text(errors="replace").strip()
        ours = self.binaries.major(self.account)
        if made_by != ours:
            raise PostgresError(
                f"{self.data} was made by PostgreSQL {made_by} and {self.binaries.postgres} is "
                f"PostgreSQL {ours}; set PG_BIN to the bin folder of a PostgreSQL {made_by}, or "
                "move the folder away to begin with an empty database."
            )


@contextmanager
def claimed(home: Path) -> Iterator[None]:
    """Only one of us at a time; the kernel ends the claim with the process, however it dies."""
    handle = os.open(home, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise PostgresError(
            f"Another tonnage is already using the database in {home}; stop that one first."
        ) from None
    try:
        yield
    finally:
        os.close(handle)


def stop_leftover(data: Path) -> None:
    """End the server of an earlier run that was killed before it could stop its child.

    Called under the claim, so the run that started this server is gone. A stale pid file of a
    dead process needs nothing: the next server takes it over.
    """
    pid = _pid_of_server(data)
    if pid is None:
        return
    deadline = time.monotonic() + SHUTDOWN_SECONDS
    os.kill(pid, signal.SIGINT)  # fast shutdown
    while _pid_of_server(data) == pid:
        if time.monotonic() > deadline:
            raise PostgresError(
                f"A PostgreSQL server of an earlier run (process {pid}) still uses {data} and "
                f"does not stop; end it with `kill -QUIT {pid}` and start again."
            )
        time.sleep(0.05)


def port_of_server(data: Path) -> int | None:
    """Where the live server on that data directory listens: the fourth line of its pid file."""
    if _pid_of_server(data) is None:
        return None
    try:
        return int((data / "postmaster.pid").read_text().split("\n")[3])
    except (OSError, ValueError, IndexError):
        return None


def _pid_of_server(data: Path) -> int | None:
    """The live server on that data directory; its number may since belong to another program."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    return pid if str(data) in _command_line(pid) else None


def _command_line(pid: int) -> str:
    entry = Path("/proc") / str(pid) / "cmdline"
    if Path("/proc/self").exists():
        try:
            return entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            return ""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return listed.stdout
