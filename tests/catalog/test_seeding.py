"""A newer seed is loaded without undoing what somebody has published."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tonnage.catalog import seeding
from tonnage.catalog.changes import ChangeSet, Put, Retire
from tonnage.catalog.kinds import AnyRecord, FormatRecord
from tonnage.catalog.release import Release
from tonnage.catalog.seeding import load_seed
from tonnage.catalog.store import publish, read_release
from tonnage.database import create_pool
from tonnage.settings import Settings


def in_transaction(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        engine = create_pool(Settings(database_url=url), statement_seconds=60)
        try:
            async with engine.begin() as connection:
                return await work(connection)
        finally:
            await engine.dispose()

    return asyncio.run(run())


def renamed(record: AnyRecord, name: str) -> FormatRecord:
    assert isinstance(record, FormatRecord)
    return msgspec.structs.replace(record, name=name)


def test_a_newer_seed_makes_a_release_that_holds_only_what_differs(
    seeded_url: str, seed: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = ChangeSet(
        "mine",
        (
            Put(renamed(seed.records["formats"]["awq"], "my own AWQ")),
            Retire("formats", "exl2-3.0bpw"),
        ),
    )
    in_transaction(seeded_url, lambda tx: publish(tx, mine, against=1, author="somebody"))
    newer: list[AnyRecord] = []
    for records in seed.records.values():
        for record in records.values():
            if record.id == "exl2-2.5bpw":
                continue  # the newer seed has it no more
            if record.id in ("awq", "gptq", "exl2-3.0bpw"):
                newer.append(renamed(record, f"newer {record.id}"))
            else:
                newer.append(record)
    monkeypatch.setattr(seeding, "seed_records", lambda: newer)
    made = in_transaction(seeded_url, load_seed)
    assert made.number == 3
    latest: Release = in_transaction(seeded_url, lambda tx: read_release(tx, 3))
    formats = latest.records["formats"]
    assert formats["gptq"].name == "newer gptq"
    assert formats["awq"].name == "my own AWQ"
    assert "exl2-3.0bpw" not in formats
    assert "exl2-2.5bpw" not in formats
    assert in_transaction(seeded_url, load_seed) is None
    first: Release = in_transaction(seeded_url, lambda tx: read_release(tx, 1))
    assert first.digest == seed.digest
    assert Release(1, (r for found in first.records.values() for r in found.values())).digest == (
        seed.digest
    )
