"""The real service under uvicorn, in a thread of the test process, on a free port."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import uvicorn

from tonnage.api.app import create_app
from tonnage.api.keys import create_key
from tonnage.api.serve import listen
from tonnage.database import create_pool
from tonnage.settings import Settings


class Service(NamedTuple):
    url: str
    settings: Settings


class _Quiet(uvicorn.Server):
    """Signals belong to pytest."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def running_service(settings: Settings) -> Iterator[Service]:
    with listen("127.0.0.1", 0) as opened:
        port = opened.getsockname()[1]
        server = _Quiet(
            uvicorn.Config(
                create_app(settings),
                lifespan="on",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=5,
            )
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        try:
            _wait(server, thread)
            yield Service(f"http://127.0.0.1:{port}", settings)
        finally:
            server.should_exit = True
            thread.join(20)


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + 20
    while not server.started:
        assert thread.is_alive(), "the service ended while starting"
        assert time.monotonic() < deadline, "the service did not start"
        time.sleep(0.01)


def key_for(settings: Settings, name: str, scopes: tuple[str, ...] = ("catalog:write",)) -> str:
    async def make() -> str:
        engine = create_pool(settings)
        async with engine.begin() as connection:
            key = await create_key(connection, name, scopes)
        await engine.dispose()
        return key

    return asyncio.run(make())
