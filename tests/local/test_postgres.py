"""Does the local server start, keep what was committed, and say clearly why it can not start?"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tonnage.local.account import account_for, own_folder
from tonnage.local.binaries import find
from tonnage.local.postgres import PostgresError, Server, running

# A run that dies without any chance to stop its server.
KILLED_RUN = """
import os, signal, sys
from pathlib import Path
from tonnage.local.postgres import running
with running(Path(sys.argv[1]), durable=False) as server:
    print(server.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def add_row(server: Server) -> None:
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (at timestamptz DEFAULT now())")
        connection.execute("INSERT INTO kept DEFAULT VALUES")


def rows(server: Server) -> int:
    with psycopg.connect(server.url) as connection:
        found = connection.execute("SELECT count(*) FROM kept").fetchone()
    assert found is not None
    return int(found[0])


def refusal(data: Path) -> str:
    """The sentence that a start on this data directory ends with."""
    with pytest.raises(PostgresError) as refused, running(data, durable=False):
        pass
    return str(refused.value)


def test_a_warm_start_keeps_the_rows_also_below_a_path_with_a_space(server_home: Path) -> None:
    data = server_home / "my database" / "data"
    with running(data, durable=False) as server:
        add_row(server)
    with running(data, durable=False) as server:
        assert rows(server) == 1
    assert not server.alive


def test_committed_rows_and_the_port_survive_a_kill(server_home: Path) -> None:
    with running(server_home / "data", durable=True) as server:
        add_row(server)
        url, pid = server.url, server.pid
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
        server.restart()
        assert (server.url, rows(server)) == (url, 1)
        assert server.pid != pid


def test_durability_is_only_given_up_when_asked(server_home: Path) -> None:
    for durable, fsync in ((True, "on"), (False, "off")):
        with (
            running(server_home / "data", durable=durable) as server,
            psycopg.connect(server.url) as connection,
        ):
            assert connection.execute("SHOW fsync").fetchone() == (fsync,)


def test_other_local_users_need_the_password(server_home: Path) -> None:
    with running(server_home / "data", durable=False) as server:
        port = psycopg.conninfo.conninfo_to_dict(server.url)["port"]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(f"postgresql://tonnage@127.0.0.1:{port}/postgres", passfile=os.devnull)
    assert (server_home / "postgres.password").stat().st_mode & 0o777 == 0o600


def test_a_server_left_by_a_killed_run_is_stopped_and_its_data_kept(server_home: Path) -> None:
    data = server_home / "data"
    with running(data, durable=False) as server:
        add_row(server)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, data], stdout=subprocess.PIPE, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    leftover = int(killed.stdout)
    os.kill(leftover, 0)  # it is still there
    with running(data, durable=False) as server:
        assert server.pid != leftover
        assert rows(server) == 1


def test_two_runs_can_not_share_a_data_directory(server_home: Path) -> None:
    with running(server_home / "data", durable=False) as server:
        assert "Another tonnage is already using" in refusal(server_home / "data")
        assert server.alive


def test_a_failing_block_still_stops_the_server(server_home: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        running(server_home / "data", durable=False) as server,
    ):
        raise KeyboardInterrupt
    assert not server.alive


def test_data_of_another_major_version(server_home: Path) -> None:
    data = server_home / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("9\n")
    said = refusal(data)
    assert f"{data} was made by PostgreSQL 9" in said
    assert "PG_BIN" in said


def test_a_folder_that_holds_something_else(server_home: Path) -> None:
    data = server_home / "data"
    data.mkdir()
    (data / "holiday.txt").write_text("not a database")
    assert "is not a PostgreSQL data directory" in refusal(data)


def test_a_file_instead_of_a_folder(server_home: Path) -> None:
    data = server_home / "data"
    data.write_text("not a folder")
    assert "can not be used" in refusal(data)


def test_a_damaged_data_directory_names_the_log(server_home: Path) -> None:
    data = server_home / "data"
    with running(data, durable=False):
        pass
    (data / "global" / "pg_control").unlink()
    said = refusal(data)
    assert f"could not use {data}" in said
    assert str(server_home / "postgres.log") in said


def test_a_lost_password(server_home: Path) -> None:
    data = server_home / "data"
    account = account_for(data)
    data.mkdir()
    (data / "PG_VERSION").write_text(find(account).major(account))
    assert "postgres.password is missing" in refusal(data)


def test_pg_bin_that_leads_nowhere(server_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_BIN", str(server_home / "nowhere"))
    said = refusal(server_home / "data")
    assert "PG_BIN is" in said
    assert "has no initdb and postgres" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's folders are closed to `nobody`")
def test_root_keeps_the_data_where_nobody_can_enter(
    server_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server_home.chmod(0o700)
    data = server_home / "data"
    instead = own_folder(data)
    try:
        for expected in (1, 2):
            with running(data, durable=False) as server:
                add_row(server)
                assert rows(server) == expected
        assert str(instead) in capsys.readouterr().err
        assert server_home.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(instead)
