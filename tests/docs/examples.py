"""The examples of README and docs: found, run, and held against the output that they print.

An example is a fenced block ``console``: a line ``$ command`` (continued by a backslash), then what
it prints. ``tonnage`` runs as a process, ``curl`` against a service of our own. JSON is compared as
values. ``python -m tests.docs.examples`` renews the printed outputs.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from tests.postgres import fresh_home
from tests.service import running_service
from tonnage.local.up import database, prepare
from tonnage.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SERVED = "http://127.0.0.1:8000"
_BLOCK = re.compile(r"```console\n\$ (?P<command>(?:.*\\\n)*.*)\n(?P<output>[\s\S]*?)```")


class Example(NamedTuple):
    page: Path
    command: str
    output: str
    span: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.page.name}: {self.command[:60]}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def examples() -> Iterator[Example]:
    for page in pages():
        for found in _BLOCK.finditer(page.read_text()):
            command = found["command"].replace("\\\n", " ")
            yield Example(page, command, found["output"], found.span("output"))


def run(example: Example, served: str) -> str:
    """What the command prints."""
    words = shlex.split(example.command)
    match words[0]:
        case "tonnage":
            done = subprocess.run(
                [sys.executable, "-m", *words],
                capture_output=True,
                text=True,
                cwd=ROOT,
                check=False,
            )
            return done.stdout + done.stderr
        case "curl":
            return _curl(words[1:], served)
        case other:
            raise AssertionError(f"an example runs tonnage or curl, not {other}")


def _curl(words: list[str], served: str) -> str:
    """The few options of curl that the examples use."""
    headers: dict[str, str] = {}
    body: str | None = None
    address = ""
    rest = iter(words)
    for word in rest:
        if word == "-s":
            continue
        if word == "-H":
            name, _, value = next(rest).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = next(rest)
        else:
            assert word.startswith(SERVED), word
            address = word.replace(SERVED, served)
    method = "GET" if body is None else "POST"
    answer = httpx.request(method, address, headers=headers, content=body, timeout=30)
    return json.dumps(answer.json(), indent=2) + "\n"


def comparable(text: str) -> Any:
    """JSON as values, anything else as it stands."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    if isinstance(found, dict):
        found.pop("request_id", None)
    return found


def renew(served: str) -> None:
    for page in pages():
        text = page.read_text()
        own = [example for example in examples() if example.page == page]
        for example in reversed(own):
            start, end = example.span
            text = text[:start] + run(example, served) + text[end:]
        page.write_text(text)


def main() -> None:
    with fresh_home() as home:
        here = Settings(data_directory=str(home), log_format="none")
        with database(here, durable=False) as settings:
            prepare(settings)
            with running_service(settings) as service:
                renew(service.url)


if __name__ == "__main__":
    main()
