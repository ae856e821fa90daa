"""A load generator small enough not to be the bottleneck: keep-alive sockets, no HTTP library.

It parses only what it needs, the status line and the content length, so that its own cost is some
20 µs a request.
"""

import asyncio
import itertools
import time
from typing import NamedTuple

Address = tuple[str, int, str]
"""Method, port, path."""


class Figures(NamedTuple):
    per_second: float
    p50_ms: float
    p99_ms: float


class _Connection(asyncio.Protocol):
    """Sends one request after another and notes how long each took."""

    def __init__(self, requests: "itertools.cycle[bytes]", seconds: list[float]) -> None:
        self._requests = requests
        self._seconds = seconds
        self._buffer = b""
        self._wanted = -1
        self._started = 0.0
        self.stopping = False
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        self._started = time.perf_counter()
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._wanted < 0:
            head, separator, _ = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self.done.set_exception(RuntimeError(self._buffer[:400].decode(errors="replace")))
                self._transport.close()
                return
            length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
            self._wanted = len(head) + 4 + int(length)
        if len(self._buffer) >= self._wanted:
            self._seconds.append(time.perf_counter() - self._started)
            self._buffer, self._wanted = b"", -1
            if self.stopping:
                self._transport.close()
            else:
                self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(None)


def request_bytes(address: Address, body: bytes) -> bytes:
    method, port, path = address
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    if method == "POST":
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def measure(address: Address, bodies: list[bytes], connections: int, seconds: float) -> Figures:
    """Requests in turn over so many connections, after a quarter of the time to warm up."""
    prepared = [request_bytes(address, body) for body in bodies]
    asyncio.run(_run(address, prepared, connections, seconds / 4))
    found = asyncio.run(_run(address, prepared, connections, seconds))
    found.sort()
    return Figures(
        len(found) / seconds,
        found[len(found) // 2] * 1000,
        found[min(len(found) - 1, int(len(found) * 0.99))] * 1000,
    )


async def _run(
    address: Address, prepared: list[bytes], connections: int, seconds: float
) -> list[float]:
    loop = asyncio.get_running_loop()
    turn = itertools.cycle(prepared)
    taken: list[float] = []
    opened = [
        (await loop.create_connection(lambda: _Connection(turn, taken), "127.0.0.1", address[1]))[1]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    for connection in opened:
        connection.stopping = True
    await asyncio.gather(*(connection.done for connection in opened))
    return taken
