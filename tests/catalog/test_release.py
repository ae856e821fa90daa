"""One release in memory: what a name means, and what makes two releases the same."""

import random
from collections import Counter

import msgspec
import pytest

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import AcceleratorRecord, AnyRecord, Kind
from tonnage.catalog.names import normal
from tonnage.catalog.release import Release

NAMED_EXACTLY: tuple[Kind, ...] = ("hosted-apis", "offers")


def records_of(release: Release) -> list[AnyRecord]:
    return [record for found in release.records.values() for record in found.values()]


def accelerator(seed: Release, record_id: str = "nvidia-l4") -> AcceleratorRecord:
    record = seed.records["accelerators"][record_id]
    assert isinstance(record, AcceleratorRecord)
    return record


def like(record: AcceleratorRecord, record_id: str, **changes: object) -> AcceleratorRecord:
    """The same facts under other names."""
    bare = {"id": record_id, "name": record_id, "aliases": (), "default_for": ()}
    return msgspec.structs.replace(record, **{**bare, **changes})


def meaning(release: Release, name: str) -> str:
    return release.resolve("accelerators", name).record.id


def test_every_id_of_the_seed_means_its_record(seed: Release) -> None:
    for kind, records in seed.records.items():
        for record_id, record in records.items():
            found = seed.resolve(kind, record_id)
            assert found.record is record
            assert not found.by_default


def test_every_alias_of_the_seed_means_its_record(seed: Release) -> None:
    for kind, records in seed.records.items():
        if kind in NAMED_EXACTLY:
            continue
        defaults = {normal(name) for r in records.values() for name in r.default_for}
        for record in records.values():
            for alias in record.aliases:
                found = seed.resolve(kind, alias)
                assert found.record.id == record.id or normal(alias) in defaults, alias


def test_every_default_of_the_seed_is_claimed_once(seed: Release) -> None:
    for records in seed.records.values():
        claims = Counter(normal(name) for r in records.values() for name in r.default_for)
        owners = {normal(n): r.id for r in records.values() for n in r.default_for}
        assert {
            name: owners[name]
            for name in claims
            if len({r.id for r in records.values() if name in map(normal, r.default_for)}) > 1
        } == {}


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [
        ("accelerators", "NVIDIA-A100-SXM4-80GB", "nvidia-a100-80gb-sxm"),
        ("accelerators", "nvidia l4", "nvidia-l4"),
        ("accelerators", "L4-24GB", "nvidia-l4"),
        ("accelerators", "RTX 4090", "nvidia-rtx-4090"),
        ("machines", "g5.xlarge", "aws/g5.xlarge"),
        ("machines", "AWS G5.12xlarge", "aws/g5.12xlarge"),
        ("models", "meta-llama/llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("formats", "FP8_E4M3", "fp8"),
        ("formats", "nf4", "bnb-nf4"),
    ],
)
def test_a_name_means_a_record(seed: Release, kind: Kind, name: str, meant: str) -> None:
    found = seed.resolve(kind, name)
    assert found.record.id == meant
    assert not found.by_default
    assert found.others == ()


@pytest.mark.parametrize("name", ["H100", "h100", "NVIDIA H100", "H-100"])
def test_an_ambiguous_name_takes_its_documented_default(seed: Release, name: str) -> None:
    found = seed.resolve("accelerators", name)
    assert found.record.id == "nvidia-h100-80gb-sxm"
    assert found.by_default
    assert {"nvidia-h100-80gb-pcie", "nvidia-h100-nvl-94gb"} <= set(found.others)
    assert found.record.id not in found.others


def test_what_else_a_name_could_be_is_that_product(seed: Release) -> None:
    """``gh200`` has ``h200`` in it, and is another product."""
    assert not [o for o in seed.resolve("accelerators", "H200").others if "gh200" in o]


def test_an_unknown_name_says_what_may_be_meant(seed: Release) -> None:
    with pytest.raises(UnknownRecord) as refused:
        seed.resolve("accelerators", "nvidia-h1000-80gb")
    assert refused.value.kind == "accelerators"
    assert 1 <= len(refused.value.suggestions) <= 3
    assert refused.value.suggestions[0].startswith("nvidia-h100-80gb")
    assert "no accelerator 'nvidia-h1000-80gb'" in refused.value.message
    assert "Did you mean" in refused.value.message


def test_a_name_is_looked_up_among_its_kind_alone(seed: Release) -> None:
    with pytest.raises(UnknownRecord):
        seed.resolve("models", "nvidia-l4")
    with pytest.raises(UnknownRecord):
        seed.resolve("accelerators", "meta-llama/Llama-3.1-8B-Instruct")


def test_an_error_repeats_no_more_of_a_name_than_it_must(seed: Release) -> None:
    with pytest.raises(UnknownRecord) as refused:
        seed.resolve("models", "x" * 5000)
    assert len(refused.value.message) < 400


def test_an_id_wins_over_an_alias_and_an_alias_over_a_name(seed: Release) -> None:
    l4 = accelerator(seed)
    by_id = like(l4, "spam", name="One")
    by_alias = like(l4, "ham", name="Two", aliases=("spam", "eggs"))
    by_name = like(l4, "bacon", name="eggs")
    for order in ([by_id, by_alias, by_name], [by_name, by_alias, by_id]):
        release = Release(1, order)
        assert meaning(release, "SPAM") == "spam"
        assert meaning(release, "Eggs") == "ham"
        assert meaning(release, "bacon") == "bacon"


def test_a_name_that_two_records_bear_means_neither(seed: Release) -> None:
    l4 = accelerator(seed)
    release = Release(1, [like(l4, "one", name="Same"), like(l4, "two", name="Same")])
    with pytest.raises(UnknownRecord) as refused:
        release.resolve("accelerators", "same")
    assert set(refused.value.suggestions) <= {"one", "two"}


def test_records_are_in_order_of_id(seed: Release) -> None:
    shuffled = records_of(seed)
    random.Random(7).shuffle(shuffled)
    release = Release(1, shuffled)
    for kind, records in release.records.items():
        assert list(records) == sorted(records)
        assert records == seed.records[kind]


def test_the_digest_does_not_depend_on_the_order_of_records(seed: Release) -> None:
    for number in (1, 2):
        shuffled = records_of(seed)
        random.Random(number).shuffle(shuffled)
        assert Release(number, shuffled).digest == seed.digest
    assert seed.digest.startswith("sha256:")


def test_the_digest_does_not_depend_on_how_a_record_was_written(seed: Release) -> None:
    """Keys backwards, null and default values spelled out: the same record."""
    again = []
    for record in records_of(seed):
        plain = msgspec.to_builtins(record)
        written = {"note": None, "aliases": [], "default_for": [], **plain}
        backwards = {key: written[key] for key in reversed(written)}
        if record.__struct_config__.tag == "formats" and backwards.get("weights"):
            backwards["weights"] = {"except_roles": {}, **backwards["weights"]}
        if record.__struct_config__.tag == "accelerators":
            backwards.setdefault("dense_operations_per_second", {})
            backwards.setdefault("unified_memory", False)
        body = msgspec.json.encode(backwards)
        again.append(msgspec.json.decode(body, type=type(record), strict=True))
    assert Release(1, again).digest == seed.digest


def test_the_digest_depends_on_every_record(seed: Release) -> None:
    l4 = accelerator(seed)
    one, two = like(l4, "one"), like(l4, "two")
    digests = {
        Release(1, records).digest
        for records in (
            [],
            [one],
            [two],
            [one, two],
            [one, like(l4, "two", note="changed")],
            [like(l4, "one", marketed_memory_bytes=1), two],
        )
    }
    assert len(digests) == 6


def test_the_facts_of_a_record_are_those_that_the_engine_sees(seed: Release) -> None:
    record = accelerator(seed)
    facts = seed.accelerator(record)
    assert facts is seed.accelerator(record), "made once"
    assert facts.name == record.name
    assert facts.usable_memory == record.usable_memory
    assert facts.stacks == record.stacks
