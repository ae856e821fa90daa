"""A PostgreSQL server that lives as our direct child, for one machine and for the tests.

It listens on a free port of 127.0.0.1 and nowhere else (a Unix socket's path may not exceed 107
bytes, which a checkout's may). Every local user can reach that port; only those who can read
`postgres.password` beside the data directory can connect.

The server stops with `running`. When this process is itself killed with SIGKILL nothing can stop
the server then; the next start finds it and stops it first.
"""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from tonnage.local.account import account_for, reachable
from tonnage.local.binaries import find
from tonnage.local.cluster import (
    ROLE,
    SHUTDOWN_SECONDS,
    Cluster,
    claimed,
    port_of_server,
    stop_leftover,
)
from tonnage.local.errors import PostgresError, not_started, refused

__all__ = ["PostgresError", "Server", "address_of_running", "running"]

CLEARING_SECONDS = 10
START_SECONDS = 60  # crash recovery reads back up to a gigabyte of log first
COMMON = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": "50",
}
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
PORT_TAKEN = "could not bind"
# What a server says while the remains of a killed one are still being cleared away.
PASSING = ('"postmaster.pid" already exists', "pre-existing shared memory block")


class Server:
    """A running server; `kill` and `restart` are for tests that take it away."""

    def __init__(self, cluster: Cluster, *, durable: bool) -> None:
        self._cluster = cluster
        self._settings = COMMON if durable else COMMON | FAST
        self._password = cluster.password()
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For psycopg and psql; the same again after a restart."""
        return f"postgresql://{ROLE}:{self._password}@127.0.0.1:{self._port}/postgres"

    @property
    def pid(self) -> int:
        """Of the server's first process; another one after a restart."""
        if self._process is None:
            raise PostgresError("The PostgreSQL server is not running.")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it was killed or ended by itself."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Return when the server answers queries; another port is only tried before that."""
        self._start(may_move=True)

    def restart(self) -> None:
        """Bring the server back on the same port, so that open pools find it again."""
        self.stop()
        self._start(may_move=False)

    def kill(self) -> None:
        """End the server as a crash would: nothing is flushed, no client is told."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, committed ones are kept."""
        if self._process is None:
            return
        for urgency in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            self._process.send_signal(urgency)
            try:
                self._process.wait(SHUTDOWN_SECONDS)
                return
            except subprocess.TimeoutExpired:
                continue

    def _start(self, *, may_move: bool) -> None:
        patience = time.monotonic() + CLEARING_SECONDS
        while (said := self._attempt()) is not None:
            passing = any(words in said for words in (*PASSING, PORT_TAKEN))
            if not passing or time.monotonic() > patience:
                raise not_started(said, self._cluster.data, self._cluster.log)
            if may_move and PORT_TAKEN in said:
                self._port = _free_port()
            time.sleep(0.1)

    def _attempt(self) -> str | None:
        """Start once and wait for an answer; the server's last words when it ended instead."""
        log = self._cluster.log
        begin = log.stat().st_size
        deadline = time.monotonic() + START_SECONDS
        self._process = self._spawn()
        while (obstacle := _obstacle(self.url)) is not None:
            if self._process.poll() is not None:
                return log.read_bytes()[begin:].decode(errors="replace")
            if time.monotonic() > deadline or "password authentication failed" in obstacle:
                self.stop()
                raise PostgresError(
                    f"PostgreSQL started on {self._cluster.data} but Tonnage could not connect "
                    f"to it ({obstacle}); see {log}."
                )
            time.sleep(0.02)
        return None

    def _spawn(self) -> subprocess.Popen[bytes]:
        """In a session of its own, as Ctrl-C signals all of ours: we stop after our own clients."""
        cluster = self._cluster
        settings = {**self._settings, "port": str(self._port)}
        options = [f"--{name}={value}" for name, value in settings.items()]
        with cluster.log.open("ab") as log:
            return subprocess.Popen(
                [cluster.binaries.postgres, "-D", cluster.data, *options],
                cwd=cluster.data,
                env=cluster.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **cluster.account.switch,
            )


@contextmanager
def running(data_directory: Path, *, durable: bool) -> Iterator[Server]:
    """A server on that data directory, made on first use, until the block ends.

    The folder above it also takes the log and the password, so each data directory needs a
    folder of its own. With `durable=False` a power cut may lose everything: for tests only.
    """
    with ExitStack() as claims:
        try:
            server = _prepared(data_directory.resolve(), claims, durable=durable)
        except OSError as error:
            raise refused(error, data_directory) from error
        try:
            server.start()
            yield server
        finally:
            server.stop()


def address_of_running(data_directory: Path) -> str | None:
    """The URL of the server that another process runs on that data directory; None without one."""
    account = account_for(data_directory)
    data = reachable(data_directory, account)
    port = port_of_server(data)
    password = data.parent / "postgres.password"
    if port is None or not password.exists():
        return None
    return f"postgresql://{ROLE}:{password.read_text().strip()}@127.0.0.1:{port}/postgres"


def _prepared(wanted: Path, claims: ExitStack, *, durable: bool) -> Server:
    """Everything up to the start: whose, where, claimed, cleared, made."""
    account = account_for(wanted)
    data = reachable(wanted, account)
    claims.enter_context(claimed(data.parent))
    cluster = Cluster(data, account, find(account))
    stop_leftover(data)
    cluster.prepare(durable=durable)
    return Server(cluster, durable=durable)


def _obstacle(url: str) -> str | None:
    """Why the server can not be used yet, None once it answers."""
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.OperationalError as error:
        return " ".join(str(error).split())
    return None


def _free_port() -> int:
    """Free at this moment: whoever takes it before the server does only costs another try."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
