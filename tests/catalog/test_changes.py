"""A change set leads from one release to the next, all of it or nothing."""

import msgspec
import pytest

from tests.catalog.test_release import accelerator, like, meaning, records_of
from tonnage.catalog.changes import Change, ChangeSet, Put, Retire, applied
from tonnage.catalog.differences import difference_between
from tonnage.catalog.errors import UnsoundChange
from tonnage.catalog.kinds import MachineRecord
from tonnage.catalog.release import Release


def change_set(*changes: Change, message: str = "for the test") -> ChangeSet:
    return ChangeSet(message, changes)


def findings(seed: Release, *changes: Change) -> list[tuple[str, str]]:
    with pytest.raises(UnsoundChange) as refused:
        applied(seed, change_set(*changes))
    return refused.value.findings


def pointers(found: list[tuple[str, str]]) -> list[str]:
    return [pointer for pointer, _ in found]


# --- what is applied


def test_a_record_is_added(seed: Release) -> None:
    new = like(accelerator(seed), "acme-one")
    following = applied(seed, change_set(Put(new)))
    assert following.number == seed.number + 1
    assert following.records["accelerators"]["acme-one"] == new
    assert len(records_of(following)) == len(records_of(seed)) + 1
    assert following.digest != seed.digest
    assert "acme-one" not in seed.records["accelerators"]


def test_a_record_is_replaced(seed: Release) -> None:
    changed = msgspec.structs.replace(accelerator(seed), note="Seen in a test.")
    following = applied(seed, change_set(Put(changed)))
    assert following.records["accelerators"]["nvidia-l4"] == changed
    assert accelerator(seed).note != "Seen in a test."
    assert len(records_of(following)) == len(records_of(seed))


def test_a_record_is_retired_from_here_on(seed: Release) -> None:
    base = applied(seed, change_set(Put(like(accelerator(seed), "acme-one"))))
    following = applied(base, change_set(Retire("accelerators", "acme-one")))
    assert "acme-one" not in following.records["accelerators"]
    assert "acme-one" in base.records["accelerators"]
    assert following.number == base.number + 1
    assert following.digest == seed.digest


def test_a_machine_may_come_with_its_accelerator_in_any_order(seed: Release) -> None:
    new = like(accelerator(seed), "acme-one")
    machine = _machine(seed, "acme/box", "acme-one")
    one, other = (
        applied(seed, change_set(*changes))
        for changes in ((Put(new), Put(machine)), (Put(machine), Put(new)))
    )
    assert one.digest == other.digest


def _machine(seed: Release, record_id: str, accelerator_id: str) -> MachineRecord:
    record = seed.records["machines"]["aws/g5.12xlarge"]
    assert isinstance(record, MachineRecord)
    return msgspec.structs.replace(
        record,
        id=record_id,
        name=record_id,
        aliases=(),
        default_for=(),
        accelerator=accelerator_id,
        accelerator_count=1,
        accelerator_memory_bytes=None,
        interconnect=None,
    )


# --- what is refused


def test_one_record_changed_twice_is_refused(seed: Release) -> None:
    new = like(accelerator(seed), "acme-one")
    assert "/changes/1" in pointers(findings(seed, Put(new), Put(like(new, "acme-one", note="x"))))
    assert "/changes/1" in pointers(findings(seed, Put(new), Retire("accelerators", "acme-one")))


def test_a_record_that_is_already_so_is_refused(seed: Release) -> None:
    assert pointers(findings(seed, Put(accelerator(seed)))) == ["/changes/0/record"]


def test_retiring_what_is_not_there_is_refused(seed: Release) -> None:
    assert pointers(findings(seed, Retire("accelerators", "acme-one"))) == ["/changes/0/id"]
    assert pointers(findings(seed, Retire("models", "nvidia-l4"))) == ["/changes/0/id"]


def test_an_unsound_record_is_refused_with_every_finding(seed: Release) -> None:
    l4 = accelerator(seed)
    too_much = like(l4, "acme-one", marketed_memory_bytes=l4.usable_memory.high_bytes // 2)
    found = findings(
        seed,
        Put(too_much),
        Put(_machine(seed, "acme/box", "acme-two")),
        Retire("models", "no/such-model"),
    )
    assert {"/changes/0/record", "/changes/1/record", "/changes/2/id"} <= set(pointers(found))
    assert all(sentence for _, sentence in found)


def test_nothing_of_a_refused_change_set_is_kept(seed: Release) -> None:
    before = seed.digest, len(records_of(seed))
    findings(seed, Put(like(accelerator(seed), "acme-one")), Retire("models", "no/such-model"))
    assert (Release(1, records_of(seed)).digest, len(records_of(seed))) == before


def test_an_alias_of_another_record_is_refused(seed: Release) -> None:
    found = findings(seed, Put(like(accelerator(seed), "acme-one", aliases=("rtx 4090",))))
    assert pointers(found) == ["/changes/0/record"]
    assert "nvidia-rtx-4090" in found[0][1]


def test_an_id_that_takes_the_alias_of_another_record_is_refused(seed: Release) -> None:
    """``L4`` means the NVIDIA part; a new record ``l4`` would win it over in silence."""
    assert meaning(seed, "L4") == "nvidia-l4"
    assert findings(seed, Put(like(accelerator(seed), "l4")))


def test_an_id_that_differs_by_punctuation_alone_is_refused(seed: Release) -> None:
    assert findings(seed, Put(like(accelerator(seed), "NVIDIA-L4", name="Another card")))


def test_a_default_that_another_record_has_is_refused(seed: Release) -> None:
    rival = like(accelerator(seed), "acme-one", default_for=("H100",))
    assert findings(seed, Put(rival))


def test_an_accelerator_that_machines_have_can_not_be_retired(seed: Release) -> None:
    """Otherwise a question about such a machine could not be answered."""
    assert findings(seed, Retire("accelerators", "nvidia-l4"))


def test_a_format_that_checkpoints_are_in_can_not_be_retired(seed: Release) -> None:
    assert findings(seed, Retire("formats", "bf16"))


def test_a_link_that_accelerators_have_can_not_be_retired(seed: Release) -> None:
    used = {getattr(r, "scale_up_link", None) for r in seed.records["accelerators"].values()}
    link = min(link for link in used if link)
    assert findings(seed, Retire("links", link))


# --- digest of a change set


def test_the_digest_of_a_change_set_is_that_of_what_it_says(seed: Release) -> None:
    new = like(accelerator(seed), "acme-one")
    one = change_set(Put(new))
    again = msgspec.json.decode(msgspec.json.encode(one), type=ChangeSet, strict=True)
    assert again == one
    assert again.digest == one.digest
    others = [
        change_set(Put(new), message="another"),
        change_set(Retire("accelerators", "acme-one")),
        change_set(Put(like(new, "acme-one", note="x"))),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 4


# --- what lies between two releases


def _later(seed: Release) -> Release:
    base = applied(seed, change_set(Put(like(accelerator(seed), "acme-gone"))))
    later = applied(
        base,
        change_set(
            Put(like(accelerator(seed), "acme-one")),
            Put(msgspec.structs.replace(accelerator(seed), note="Other.", power_watts=71)),
            Retire("accelerators", "acme-gone"),
        ),
    )
    return Release(later.number, records_of(later))


def test_no_difference_is_none(seed: Release) -> None:
    same = Release(9, records_of(seed))
    assert difference_between(seed, same).changes == []


def test_changes_are_listed_by_record_and_field(seed: Release) -> None:
    later = _later(seed)
    found = difference_between(seed, later)
    assert (found.older, found.newer) == (seed.number, later.number)
    assert [(c.kind, c.id, c.change) for c in found.changes] == [
        ("accelerators", "acme-one", "added"),
        ("accelerators", "nvidia-l4", "changed"),
    ]
    assert found.changes[0].fields == []
    fields = {f.pointer: (f.before, f.after) for f in found.changes[1].fields}
    assert fields == {
        "/note": (accelerator(seed).note, "Other."),
        "/power_watts": (accelerator(seed).power_watts, 71),
    }


def test_read_backwards_what_was_added_was_retired(seed: Release) -> None:
    found = difference_between(_later(seed), seed)
    assert [(c.id, c.change) for c in found.changes] == [
        ("acme-one", "retired"),
        ("nvidia-l4", "changed"),
    ]
    assert {f.pointer: f.after for f in found.changes[1].fields} == {
        "/note": accelerator(seed).note,
        "/power_watts": accelerator(seed).power_watts,
    }


def test_a_field_within_a_field_has_its_own_pointer(seed: Release) -> None:
    l4 = accelerator(seed)
    usable = msgspec.structs.replace(l4.usable_memory, basis="derived")
    later = Release(2, [msgspec.structs.replace(l4, usable_memory=usable)])
    (change,) = difference_between(Release(1, [l4]), later).changes
    (field,) = change.fields
    assert field.pointer == "/usable_memory/basis"
    assert (field.before, field.after) == ("measured", None) or field.after == "derived"


def test_a_pointer_escapes_what_json_pointers_escape(seed: Release) -> None:
    record = seed.records["formats"]["fp8"]
    one, two = (
        msgspec.structs.replace(record, hardware={"a/b~c": text}) for text in ("before", "after")
    )
    (change,) = difference_between(Release(1, [one]), Release(2, [two])).changes
    assert [field.pointer for field in change.fields] == ["/hardware/a~1b~0c"]


def test_a_tuple_that_changed_is_given_whole(seed: Release) -> None:
    l4 = accelerator(seed)
    later = Release(2, [msgspec.structs.replace(l4, aliases=(*l4.aliases, "ell four"))])
    (change,) = difference_between(Release(1, [l4]), later).changes
    (field,) = change.fields
    assert field.pointer == "/aliases"
    assert list(field.before) == list(l4.aliases)
    assert list(field.after) == [*l4.aliases, "ell four"]
