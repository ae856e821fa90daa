"""The releases that a worker holds in memory, and how it learns of a new one.

The latest release is always there once loaded, and stays when PostgreSQL goes away. A notification
makes the worker load the next one; a poll behind it catches what a lost connection missed.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator

import psycopg
import stamina
import structlog
from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncEngine

from tonnage.database import AWAY

from .errors import Unavailable, UnknownRelease
from .release import Release
from .store import CHANNEL, latest_number, read_release

MOST_OLD_RELEASES = 4
POLL_SECONDS = 15.0

log = structlog.get_logger(__name__)


class Shelf:
    def __init__(self, engine: AsyncEngine, listen_url: str) -> None:
        self._engine = engine
        self._listen_url = listen_url
        self._latest: Release | None = None
        self._older: OrderedDict[int, Release] = OrderedDict()
        self.connected = False

    @property
    def latest(self) -> Release:
        if self._latest is None:
            raise Unavailable("no release of the catalog has been loaded yet")
        return self._latest

    async def at(self, number: int | None) -> Release:
        """A release by number, the latest for None.

        Raises UnknownRelease, or Unavailable where it is not in memory and PostgreSQL is away.
        """
        if number is None or (self._latest is not None and number == self._latest.number):
            return self.latest
        held = self._older.get(number)
        if held is not None:
            self._older.move_to_end(number)
            return held
        try:
            async with self._engine.connect() as connection:
                found = await read_release(connection, number)
        except AWAY as error:
            raise Unavailable(
                f"release {number} is not in memory and the database does not answer"
            ) from error
        self._older[number] = found
        while len(self._older) > MOST_OLD_RELEASES:
            self._older.popitem(last=False)
        return found

    def adopt(self, release: Release) -> None:
        """Hold a release that this worker has just published."""
        if self._latest is None or release.number > self._latest.number:
            previous, self._latest = self._latest, release
            if previous is not None:
                self._older[previous.number] = previous

    async def refresh(self) -> None:
        """Load the latest release if it is newer than the one held."""
        async with self._engine.connect() as connection:
            number = await latest_number(connection)
            if number and (self._latest is None or number != self._latest.number):
                loaded = await read_release(connection, number)
                self.adopt(loaded)
                log.info("catalog release loaded", release=number, digest=loaded.digest)

    async def follow(self) -> None:
        """Keep the latest release current until cancelled, through every loss of the database."""
        while True:
            async for attempt in stamina.retry_context(
                on=(psycopg.Error, *AWAY, UnknownRelease),
                attempts=None,
                timeout=None,
                wait_initial=0.2,
                wait_max=5.0,
            ):
                with attempt:
                    await self._listen()

    async def _listen(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._listen_url, autocommit=True, connect_timeout=5
        )
        try:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
            self.connected = True
            while True:
                await self.refresh()
                async for _notify in connection.notifies(timeout=POLL_SECONDS, stop_after=1):
                    pass
        finally:
            self.connected = False
            await connection.close()

    @contextlib.asynccontextmanager
    async def followed(self) -> AsyncIterator["Shelf"]:
        """Follow in the background while the context is open."""
        with contextlib.suppress(*AWAY, UnknownRelease):
            await self.refresh()
        task = asyncio.create_task(self.follow(), name="catalog-shelf")
        try:
            yield self
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
