"""Releases in PostgreSQL: the only place with the catalog's SQL.

Every function takes a connection whose transaction the caller opens and commits.
"""

import asyncio
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tonnage.canonical import plain

from .changes import ChangeSet, Put, applied
from .digests import record_digest
from .errors import ReusedKey, StaleRelease, UnknownRelease
from .kinds import AnyRecord, Kind
from .release import Release, kind_of
from .tables import record as records
from .tables import release as releases

CHANNEL = "catalog_release"
_PUBLISHING = "tonnage.catalog.publish"
_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


class ReleaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    digest: str
    author: str
    message: str
    published_at: datetime


class Published(NamedTuple):
    """``release`` is None where the same request had published it before."""

    info: ReleaseInfo
    release: Release | None


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One state of a record, and the releases it holds in."""

    released_in: int
    retired_in: int | None
    digest: str
    record: AnyRecord


_INFO = (
    releases.c.number,
    releases.c.digest,
    releases.c.author,
    releases.c.message,
    releases.c.published_at,
)


async def latest_number(tx: AsyncConnection) -> int:
    """0 for a catalog that holds nothing yet."""
    found = await tx.scalar(sa.select(sa.func.max(releases.c.number)))
    return found or 0


async def release_info(tx: AsyncConnection, number: int) -> ReleaseInfo:
    row = (await tx.execute(sa.select(*_INFO).where(releases.c.number == number))).one_or_none()
    if row is None:
        raise UnknownRelease(f"no release {number}; the latest is {await latest_number(tx)}")
    return ReleaseInfo(**row._mapping)


async def list_releases(
    tx: AsyncConnection, *, limit: int, before: int | None = None
) -> list[ReleaseInfo]:
    """Newest first."""
    query = sa.select(*_INFO).order_by(releases.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(releases.c.number < before)
    return [ReleaseInfo(**row._mapping) for row in await tx.execute(query)]


async def read_release(tx: AsyncConnection, number: int) -> Release:
    info = await release_info(tx, number)
    holds = sa.and_(
        records.c.released_in <= number,
        sa.or_(records.c.retired_in.is_(None), records.c.retired_in > number),
    )
    rows = (
        await tx.execute(sa.select(sa.cast(records.c.body, sa.Text), records.c.digest).where(holds))
    ).all()
    found = [_decoder.decode(body) for body, _ in rows]
    digests = {
        (str(kind_of(record)), record.id): digest
        for record, (_, digest) in zip(found, rows, strict=True)
    }
    return Release(number, found, info.digest, digests)


async def history(tx: AsyncConnection, kind: Kind, record_id: str) -> list[Version]:
    """Every state that a record has had, oldest first."""
    rows = await tx.execute(
        sa.select(
            records.c.released_in,
            records.c.retired_in,
            records.c.digest,
            sa.cast(records.c.body, sa.Text).label("body"),
        )
        .where(records.c.kind == kind, records.c.id == record_id)
        .order_by(records.c.released_in)
    )
    return [
        Version(
            released_in=row.released_in,
            retired_in=row.retired_in,
            digest=row.digest,
            record=_decoder.decode(row.body),
        )
        for row in rows
    ]


async def publish(
    tx: AsyncConnection,
    change_set: ChangeSet,
    *,
    against: int,
    author: str,
    idempotency_key: str | None = None,
) -> Published:
    """Make the change set the next release, or raise and leave nothing.

    Raises StaleRelease where another release came first, UnsoundChange with the findings, ReusedKey
    where the key belongs to another change set. The same key with the same change set is answered
    with the release it already made.
    """
    await tx.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(_PUBLISHING))))
    if idempotency_key is not None:
        done = await _published_under(tx, idempotency_key, change_set.digest)
        if done is not None:
            return Published(done, None)
    latest = await latest_number(tx)
    if latest != against:
        raise StaleRelease(against, latest)
    base = await read_release(tx, latest) if latest else Release(0, ())
    # Thousands of records are reviewed and hashed, while other requests want to be answered.
    following = await asyncio.to_thread(applied, base, change_set)
    await tx.execute(
        releases.insert().values(
            number=following.number,
            digest=following.digest,
            author=author,
            message=change_set.message,
            idempotency_key=idempotency_key,
            change_digest=change_set.digest,
        )
    )
    await _write(tx, change_set, following.number)
    await tx.execute(sa.select(sa.func.pg_notify(CHANNEL, str(following.number))))
    return Published(await release_info(tx, following.number), following)


async def _published_under(tx: AsyncConnection, key: str, digest: str) -> ReleaseInfo | None:
    row = (
        await tx.execute(
            sa.select(releases.c.number, releases.c.change_digest).where(
                releases.c.idempotency_key == key
            )
        )
    ).one_or_none()
    if row is None:
        return None
    if row.change_digest != digest:
        raise ReusedKey(f"this Idempotency-Key made release {row.number} of another change set")
    return await release_info(tx, row.number)


async def _write(tx: AsyncConnection, change_set: ChangeSet, number: int) -> None:
    """Retire the rows that are replaced or taken out, and insert the new ones."""
    ended: list[tuple[str, str]] = []
    added: list[dict[str, Any]] = []
    for change in change_set.changes:
        if isinstance(change, Put):
            kind = kind_of(change.record)
            ended.append((kind, change.record.id))
            added.append(
                {
                    "kind": kind,
                    "id": change.record.id,
                    "released_in": number,
                    "digest": record_digest(change.record),
                    "body": plain(change.record),
                }
            )
        else:
            ended.append((change.kind, change.id))
    if number > 1:
        await tx.execute(
            records.update()
            .where(
                records.c.retired_in.is_(None),
                sa.tuple_(records.c.kind, records.c.id).in_(ended),
            )
            .values(retired_in=number)
        )
    if added:
        await tx.execute(records.insert(), added)
