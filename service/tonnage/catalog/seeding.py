"""Loading the seed files into the database, the first time and when newer ones come.

The seed owns the records that it released itself. What somebody else has published or retired since
is left alone, so loading a newer seed never undoes a user's change.
"""

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from .changes import Change, ChangeSet, Put, Retire
from .digests import record_digest
from .kinds import AnyRecord, Kind
from .release import kind_of
from .seed import AUTHOR, MESSAGE, seed_records
from .store import ReleaseInfo, latest_number, publish
from .tables import record as records
from .tables import release as releases


async def load_seed(tx: AsyncConnection) -> ReleaseInfo | None:
    """Publish what the seed files have and the catalog has not; None where nothing differs."""
    latest = await latest_number(tx)
    changes = await _changes(tx, seed_records())
    if not changes:
        return None
    change_set = ChangeSet(MESSAGE, tuple(changes))
    return (await publish(tx, change_set, against=latest, author=AUTHOR)).info


async def _changes(tx: AsyncConnection, seed: list[AnyRecord]) -> list[Change]:
    held = await _current(tx)
    theirs = await _retired_by_others(tx)
    changes: list[Change] = []
    for record in seed:
        identity = (kind_of(record), record.id)
        if identity in theirs:
            continue
        owner, digest = held.pop(identity, (AUTHOR, None))
        if owner == AUTHOR and digest != record_digest(record):
            changes.append(Put(record))
    changes += [Retire(kind, id_) for (kind, id_), (owner, _) in held.items() if owner == AUTHOR]
    return changes


async def _current(tx: AsyncConnection) -> dict[tuple[Kind, str], tuple[str, str | None]]:
    """Owner and digest of every record of the latest release."""
    rows = await tx.execute(
        sa.select(records.c.kind, records.c.id, releases.c.author, records.c.digest)
        .join(releases, releases.c.number == records.c.released_in)
        .where(records.c.retired_in.is_(None))
    )
    return {(row.kind, row.id): (row.author, row.digest) for row in rows}


async def _retired_by_others(tx: AsyncConnection) -> set[tuple[Kind, str]]:
    """Records that somebody took out and nobody put back."""
    current = records.alias()
    rows = await tx.execute(
        sa.select(records.c.kind, records.c.id)
        .join(releases, releases.c.number == records.c.retired_in)
        .where(
            releases.c.author != AUTHOR,
            ~sa.exists().where(
                current.c.kind == records.c.kind,
                current.c.id == records.c.id,
                current.c.retired_in.is_(None),
            ),
        )
    )
    return {(row.kind, row.id) for row in rows}
