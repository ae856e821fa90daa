"""The servers that are measured, each one uvicorn worker in a process of its own."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from litestar import Litestar, get, post
from litestar.params import JSONBody

from tonnage.api.serve import listen
from tonnage.plans.requests import FitInferenceRequest

EMPTY = ["-m", "uvicorn", "benchmarks.servers:empty", "--no-access-log", "--log-level", "error"]
ECHO = ["-m", "uvicorn", "benchmarks.servers:echo", "--no-access-log", "--log-level", "error"]
SERVICE = ["-m", "tonnage", "serve"]


@get("/")
async def nothing() -> dict[str, str]:
    return {"hello": "world"}


@post("/", status_code=200)
async def same(data: JSONBody[FitInferenceRequest]) -> FitInferenceRequest:
    return data


empty = Litestar([nothing], openapi_config=None, logging_config=None)
echo = Litestar([same], openapi_config=None, logging_config=None)


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[int]:
    """The port of a server that answers; it has the first core where there are two."""
    with listen("127.0.0.1", 0) as probe:
        port: int = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
    )
    _pin(process.pid, 0)
    _pin(0, 1)
    try:
        _wait(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _pin(pid: int, core: int) -> None:
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(pid, {core})


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=1).close()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
            time.sleep(0.05)
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server did not start")
