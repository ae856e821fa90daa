"""The one error of this package, and how a server's log becomes its sentence."""

import errno
import shutil
from pathlib import Path

# The second is how PostgreSQL puts it when a part of a write still went through.
NO_SPACE = ("No space left on device", "Check free disk space")


class PostgresError(Exception):
    """One clear sentence: what is wrong with the local PostgreSQL and what to do about it.

    Callers print the message and need no traceback.
    """


def not_made(said: str, data: Path, log: Path) -> PostgresError:
    """Why `initdb` could not make a data directory, from the last words it said."""
    if _full(said, data):
        return disk_full(data)
    return PostgresError(
        f"PostgreSQL could not make a database in {data}: {_verdict(said)} (log: {log}); set "
        "PG_BIN to the bin folder of another PostgreSQL, or DATABASE_URL to a server of yours."
    )


def not_started(said: str, data: Path, log: Path) -> PostgresError:
    """Why a server ended instead of answering, from the last words it said."""
    if _full(said, data):
        return disk_full(data)
    return PostgresError(
        f"PostgreSQL could not use {data}: {_verdict(said)} (log: {log}); if its content is "
        "damaged, move that folder away and start again with an empty one."
    )


def refused(error: OSError, data: Path) -> PostgresError:
    """What the operating system did not let us do with our own files."""
    if error.errno == errno.ENOSPC:
        return disk_full(data)
    return PostgresError(
        f"The PostgreSQL data directory {data} can not be used ({error.strerror}: "
        f"{error.filename}); start Tonnage as the user who made it, or move it away."
    )


def disk_full(data: Path) -> PostgresError:
    """The one failure that no other data directory on the same disk would cure."""
    return PostgresError(
        f"The disk that holds {data} is full; free some space and start again (the server's log "
        f"is {data.parent / 'postgres.log'})."
    )


def _full(said: str, data: Path) -> bool:
    """On a disk without any room the log stays empty too, so words alone do not tell."""
    return any(words in said for words in NO_SPACE) or not shutil.disk_usage(data.parent).free


def _verdict(said: str) -> str:
    """The line that names the cause; hints and shutdown notices follow it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    for mark in ("PANIC:", "FATAL:", "error:", "could not"):
        for line in reversed(lines):
            if mark in line:
                # Without the time and the process number, which the log still has.
                start = line.index(mark) + (len(mark) if mark.endswith(":") else 0)
                return line[start:].strip()
    return lines[-1] if lines else "it said nothing"
