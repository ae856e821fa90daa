"""The command line as its users meet it: processes, exit codes, one sentence for each error."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_publishing import change
from tonnage.api.fit import EXAMPLE, LAPTOP


def tonnage(*words: str, given: str | None = None, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "tonnage", *words],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=60,
    )


def test_help_names_every_command_and_the_exit_codes() -> None:
    shown = tonnage("--help")
    assert shown.returncode == 0
    for name in ("up", "serve", "migrate", "fit", "catalog", "key", "openapi", "evaluate"):
        assert f"  {name} " in shown.stdout
    assert "11 does not fit" in shown.stdout


@pytest.mark.parametrize(("request_body", "code"), [(EXAMPLE, 0), (LAPTOP, 11)])
def test_the_exit_code_is_the_verdict(request_body: dict[str, Any], code: int) -> None:
    done = tonnage("fit", "--request", "-", "--json", given=json.dumps(request_body))
    assert done.returncode == code
    assert done.stderr == ""
    verdict = json.loads(done.stdout)["verdict"]
    assert {0: "fits", 10: "tight", 11: "does_not_fit"}[code] == verdict


def test_options_and_a_request_ask_the_same(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(
        json.dumps(
            {
                "model": "Qwen/Qwen3-8B",
                "hardware": {"accelerator": "L40S"},
                "runtime": {"name": "vllm", "version": "0.11.0", "flags": {"max_num_seqs": 64}},
                "workload": {"context_tokens": 8192, "concurrent_sequences": 4},
            }
        )
    )
    by_file = tonnage("fit", "--request", str(file), "--json")
    words = "fit --model Qwen/Qwen3-8B --accelerator L40S --version 0.11.0 --context 8192"
    by_words = tonnage(*words.split(), "--sequences", "4", "--flag", "max_num_seqs=64", "--json")
    assert by_file.stdout == by_words.stdout


def test_what_a_runtime_does_not_support_is_said() -> None:
    words = "fit --model Qwen/Qwen3-8B --accelerator apple-m4-max-40-core-64gb --context 8192"
    assert "Support: vLLM on metal is cpu only" in tonnage(*words.split()).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--model", "llama"], "hardware"),
        (
            ["fit", "--model", "x", "--accelerator", "L4", "--context", "5"],
            "no model 'x' in the catalog",
        ),
        (["fit", "--request", "/nowhere.json"], "/nowhere.json"),
        (["fit", "--flag", "nonsense"], "NAME=VALUE"),
        (["catalog", "show", "models", "meta-lama/Llama-3.1-8B"], "Did you mean"),
        (["catalog", "show", "modles", "x"], "modles"),
        (["evaluate", "/nowhere.jsonl"], "nowhere"),
        (["evaluate", "README.md"], "README.md"),
        (["catalog", "list", "models", "--release", "7"], "release 1"),
        (["nonsense"], "nonsense"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(words: list[str], said: str) -> None:
    done = tonnage(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_database_that_is_away_is_said_so() -> None:
    away = "postgresql://nobody@127.0.0.1:1/none"
    done = tonnage("catalog", "releases", DATABASE_URL=away)
    assert done.returncode == 3
    assert "the database does not answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_variable_that_is_not_right_is_named() -> None:
    done = tonnage("key", "list", PORT="eight")
    assert done.returncode == 2
    assert "PORT" in done.stderr


def test_keys_and_releases_by_command_line(seeded_url: str, tmp_path: Path) -> None:
    made = tonnage("key", "create", "robot", DATABASE_URL=seeded_url)
    key = made.stdout.strip()
    assert key.startswith("tng_")
    (held,) = json.loads(tonnage("key", "list", "--json", DATABASE_URL=seeded_url).stdout)
    assert held["name"] == "robot"
    assert key not in json.dumps(held)
    file = tmp_path / "change.json"
    file.write_text(json.dumps(change(12.5)))
    words = ["catalog", "publish", str(file), "--against", "1"]
    published = tonnage(*words, DATABASE_URL=seeded_url)
    assert json.loads(published.stdout)["number"] == 2
    again = tonnage(*words, DATABASE_URL=seeded_url)
    assert again.returncode == 2
    assert "the latest is 2" in again.stderr
    listed = tonnage("catalog", "releases", "--json", DATABASE_URL=seeded_url)
    assert [release["number"] for release in json.loads(listed.stdout)] == [2, 1]
    compared = tonnage("catalog", "diff", "1", "2", DATABASE_URL=seeded_url)
    assert json.loads(compared.stdout)["changes"][0]["id"] == "tests/one"
    shown = tonnage("catalog", "show", "offers", "tests/one", DATABASE_URL=seeded_url)
    assert json.loads(shown.stdout)["usd_per_hour"] == 12.5
    revoked = tonnage("key", "revoke", key.split("_")[1], DATABASE_URL=seeded_url)
    assert revoked.returncode == 0


def test_a_model_is_imported_from_its_folder_and_nothing_is_run(tmp_path: Path) -> None:
    from tonnage.api.imports import EXAMPLE as IMPORT

    (tmp_path / "config.json").write_text(json.dumps(IMPORT["config"]))
    (tmp_path / "modeling_evil.py").write_text("raise SystemExit('code of a model was run')")
    done = tonnage("catalog", "import-model", str(tmp_path), "--id", "example-org/small")
    assert done.returncode == 0
    record = json.loads(done.stdout)
    assert record["id"] == "example-org/small"
    assert record["architecture"]["hidden_size"] == 2048


def test_no_progress_bar_is_drawn_into_a_pipe() -> None:
    done = tonnage("evaluate", "tests/evaluation/cases/local_memory.jsonl", "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["kind"] == "local_memory"


class Up:
    """``tonnage up`` as a process of its own."""

    def __init__(self, home: Path, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"
        environment = {**os.environ, "TONNAGE_DATA_DIRECTORY": str(home), "PORT": str(port)}
        environment.pop("DATABASE_URL", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tonnage", "up"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if httpx.get(f"{self.address}/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(self.process.communicate()[0])

    def stop(self, number: signal.Signals) -> str:
        self.process.send_signal(number)
        return self.process.communicate(timeout=30)[0]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_up_starts_everything_keeps_everything_and_stops_everything(server_home: Path) -> None:
    home, port = server_home / "a folder", free_port()
    first = Up(home, port)
    first.wait()
    key = tonnage("key", "create", "me", TONNAGE_DATA_DIRECTORY=str(home)).stdout.strip()
    headers = {"Authorization": f"Bearer {key}", "If-Match": '"1"'}
    url = f"{first.address}/v1/catalog/releases"
    assert httpx.post(url, json=change(9.5), headers=headers).status_code == 201
    said = first.stop(signal.SIGINT)
    assert first.process.returncode == 0
    assert "The seed catalog was loaded as release 1." in said
    assert f"{first.address}/docs" in said
    assert "Traceback" not in said
    second = Up(home, port)
    second.wait()
    assert httpx.get(f"{second.address}/v1/offers/tests/one").json()["usd_per_hour"] == 9.5
    third = Up(home, port)
    refused = third.process.communicate(timeout=30)[0]
    assert third.process.returncode == 3
    assert "can not be listened on" in refused
    fourth = Up(home, free_port())
    assert "already using the database" in fourth.process.communicate(timeout=30)[0]
    assert fourth.process.returncode == 3
    assert "The catalog is at release 2." in second.stop(signal.SIGTERM)
    pids = (home / "postgres" / "postmaster.pid").exists()
    assert not pids


def test_a_broken_data_directory_is_one_sentence(server_home: Path) -> None:
    (server_home / "postgres").mkdir()
    (server_home / "postgres" / "letter.txt").write_text("not a database")
    broken = Up(server_home, free_port())
    said = broken.process.communicate(timeout=30)[0]
    assert broken.process.returncode == 3
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
