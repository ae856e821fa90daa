"""API keys: a prefix to find the row by, a secret of which only the SHA-256 is stored, scopes.

A key that was verified is remembered for a minute, so that closed reads go on for a while when
PostgreSQL is away.
"""

import hashlib
import hmac
import secrets
import time
from datetime import UTC, datetime

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from tonnage.catalog.tables import api_key as keys

from .call import Call
from .operations import Scope
from .problems import ApiError

REMEMBERED_SECONDS = 60.0
MARK = "tng"


class Principal(msgspec.Struct, frozen=True):
    name: str
    scopes: tuple[str, ...]


def new_key() -> tuple[str, str, bytes]:
    """The key to hand out, its prefix, and the digest to store."""
    prefix = secrets.token_hex(6)
    key = f"{MARK}_{prefix}_{secrets.token_urlsafe(32)}"
    return key, prefix, digest(key)


def digest(key: str) -> bytes:
    """Plain SHA-256: the secret has 256 random bits, so there is nothing to slow guessing of."""
    return hashlib.sha256(key.encode()).digest()


async def create_key(
    tx: AsyncConnection, name: str, scopes: tuple[str, ...], expires_at: datetime | None = None
) -> str:
    key, prefix, stored = new_key()
    await tx.execute(
        keys.insert().values(
            prefix=prefix,
            secret_sha256=stored,
            name=name,
            scopes=list(scopes),
            expires_at=expires_at,
        )
    )
    return key


async def revoke_key(tx: AsyncConnection, prefix: str) -> bool:
    done = await tx.execute(
        keys.update()
        .where(keys.c.prefix == prefix, keys.c.revoked_at.is_(None))
        .values(revoked_at=sa.func.now())
    )
    return done.rowcount == 1


class KeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    prefix: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


async def list_keys(tx: AsyncConnection) -> list[KeyInfo]:
    columns = [keys.c[field] for field in KeyInfo.__struct_fields__]
    rows = await tx.execute(sa.select(*columns).order_by(keys.c.created_at))
    return [KeyInfo(**{**row._mapping, "scopes": tuple(row.scopes)}) for row in rows]


class Keyring:
    """Verifies the key of a request."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._remembered: dict[bytes, tuple[float, Principal]] = {}

    async def principal(self, request: Call, scope: Scope | None) -> Principal:
        """Raises ApiError: 401 without a valid key, 403 without the scope."""
        key = _given(request)
        stored = digest(key)
        held = self._remembered.get(stored)
        if held is None or held[0] < time.monotonic():
            found = await self._look_up(key, stored)
            if len(self._remembered) > 10_000:
                self._remembered.clear()
            self._remembered[stored] = (time.monotonic() + REMEMBERED_SECONDS, found)
        else:
            found = held[1]
        if scope is not None and scope not in found.scopes:
            raise ApiError("scope_required", f"the key {found.name!r} lacks the scope {scope}")
        return found

    async def _look_up(self, key: str, stored: bytes) -> Principal:
        parts = key.split("_", 2)
        if len(parts) == 3 and parts[0] == MARK and len(parts[1]) <= 40 and parts[1].isalnum():
            async with self._engine.connect() as connection:
                row = (
                    await connection.execute(sa.select(keys).where(keys.c.prefix == parts[1]))
                ).one_or_none()
            if row is not None and hmac.compare_digest(bytes(row.secret_sha256), stored):
                ended = row.expires_at is not None and row.expires_at <= datetime.now(UTC)
                if row.revoked_at is None and not ended:
                    return Principal(row.name, tuple(row.scopes))
        raise _refused("the API key is not valid")


def _given(request: Call) -> str:
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise _refused("send Authorization: Bearer with an API key (tonnage key create makes one)")
    return key.strip()


def _refused(detail: str) -> ApiError:
    return ApiError("key_required", detail, headers={"WWW-Authenticate": 'Bearer realm="tonnage"'})
