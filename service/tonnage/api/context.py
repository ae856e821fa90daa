"""What a worker's handlers share, made at start and found on the application's state."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tonnage.catalog.errors import Unavailable
from tonnage.catalog.shelf import Shelf
from tonnage.database import AWAY
from tonnage.settings import Settings

from .call import Call
from .keys import Keyring


class Context:
    def __init__(self, settings: Settings, engine: AsyncEngine, contract: bytes) -> None:
        self.settings = settings
        self.contract = contract
        self.engine = engine
        self.shelf = Shelf(engine, settings.libpq_url)
        self.keyring = Keyring(engine)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that is committed before the answer is sent.

        Raises Unavailable where PostgreSQL does not answer.
        """
        try:
            async with self.engine.begin() as connection:
                yield connection
        except AWAY as error:
            raise Unavailable("the database does not answer; nothing was written") from error


def context_of(request: Call) -> Context:
    found: Context = request.app.state.context
    return found
