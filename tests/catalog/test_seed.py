"""The seed as a whole: sound, resolvable, and as its kept digest says."""

from tonnage.catalog.release import Release
from tonnage.catalog.review import review
from tonnage.catalog.seed import seed_records, seed_release


def test_every_record_holds_up() -> None:
    release = seed_release()
    found = [
        f"{kind} {record_id}: {finding}"
        for kind, records in release.records.items()
        for record_id, record in records.items()
        for finding in review(record, release)
    ]
    assert found == []


def test_no_two_records_share_kind_and_id() -> None:
    records = seed_records()
    assert len({(type(r), r.id) for r in records}) == len(records)


def test_the_kept_digest_is_that_of_the_files() -> None:
    assert seed_release().digest == Release(1, seed_records()).digest


def test_every_kind_is_there(seed: Release) -> None:
    least = {
        "models": 300,
        "accelerators": 140,
        "machines": 250,
        "links": 50,
        "offers": 300,
        "hosted-apis": 1000,
        "runtimes": 20,
        "formats": 40,
        "sites": 50,
    }
    for kind, records in seed.records.items():
        assert len(records) >= least[kind], kind
