"""Running the application under uvicorn: one process, a clear word when the port is taken."""

import gc
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from tonnage.settings import Settings

from .app import create_app


class PortError(Exception):
    """The address can not be listened on."""


class _Server(uvicorn.Server):
    """Stops on SIGINT and SIGTERM and returns, so that what was started beside it is stopped too.

    uvicorn's own raises the signal once more after the shutdown, which would end the process there.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """The catalog's thousands of objects stay: the collector need not walk them every time."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        held = {s: signal.signal(s, self._stop) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for name, handler in held.items():
                signal.signal(name, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.handle_exit(signal.Signals(number), frame)


def listen(host: str, port: int) -> socket.socket:
    """Raises PortError with a sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host, port))
    except OSError as error:
        opened.close()
        reason = error.strerror or str(error)
        raise PortError(
            f"{host}:{port} can not be listened on ({reason}): stop what uses it, or set PORT."
        ) from None
    return opened


def serve(settings: Settings, opened: socket.socket) -> None:
    """Answer until SIGINT or SIGTERM; requests in flight are finished."""
    server = _Server(
        uvicorn.Config(
            create_app(settings),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            timeout_graceful_shutdown=10,
            timeout_keep_alive=30,
        )
    )
    server.run(sockets=[opened])
