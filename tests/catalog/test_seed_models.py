"""The models that come with the service: they decode strictly, are named once, and add up."""

import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest

import tonnage.catalog
from tonnage.catalog.kinds import ModelRecord
from tonnage.catalog.names import normal
from tonnage.catalog.review.models import difference, review_model

SEED = Path(tonnage.catalog.__file__).parent / "seed"
FORMATS = {
    "bf16",
    "fp16",
    "fp32",
    "fp8",
    "fp8-block",
    "mxfp4",
    "nvfp4",
    "awq",
    "gptq",
    "w4a16",
    "w4a16-experts",
    "int8-w8a8",
    "bnb-nf4",
    "bnb-int8",
}


def _records() -> list[ModelRecord]:
    return [
        msgspec.json.decode(line, type=ModelRecord, strict=True)
        for path in sorted((SEED / "models").glob("*.jsonl"))
        for line in path.read_bytes().splitlines()
    ]


@pytest.fixture(scope="module")
def records() -> list[ModelRecord]:
    return _records()


def test_every_line_is_written_in_the_canonical_form() -> None:
    for path in sorted((SEED / "models").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            record = msgspec.json.decode(line, type=ModelRecord, strict=True)
            assert msgspec.json.encode(record) == line, record.id


def test_no_finding_in_any_record(records: list[ModelRecord]) -> None:
    findings = {record.id: found for record in records if (found := review_model(record))}
    assert findings == {}


def test_ids_names_and_aliases_are_used_once(records: list[ModelRecord]) -> None:
    used: Counter[str] = Counter()
    for record in records:
        used.update({normal(name) for name in (record.id, record.name, *record.aliases)})
    assert [name for name, times in used.items() if times > 1] == []


def test_checkpoint_formats_are_known(records: list[ModelRecord]) -> None:
    assert {record.checkpoint_format for record in records} <= FORMATS


def test_most_counts_agree_with_the_published_ones(records: list[ModelRecord]) -> None:
    """Of the priced records with an exact published count, nine tenths to 0.05 %."""
    priced = [record for record in records if record.architecture]
    apart = [abs(found) for record in priced if (found := difference(record)) is not None]
    assert len(priced) >= 310
    assert len(apart) >= 265
    assert sum(one <= 0.0005 for one in apart) >= 250
    assert max(apart) <= 0.01


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B",
        "meta-llama/Llama-3.1-8B-Instruct",
        "meta-llama/Llama-3.1-70B-Instruct",
        "meta-llama/Llama-2-7b",
        "meta-llama/Llama-2-13b",
        "meta-llama/Llama-2-70b",
        "deepseek-ai/DeepSeek-V3",
        "deepseek-ai/DeepSeek-R1",
        "openai/gpt-oss-20b",
        "openai/gpt-oss-120b",
        "google/gemma-3-27b-it",
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "llama-3.1-8b",
    ],
)
def test_the_models_people_ask_for_first_are_priced(records: list[ModelRecord], name: str) -> None:
    (found,) = (
        record
        for record in records
        if normal(name) in {normal(known) for known in (record.id, record.name, *record.aliases)}
    )
    assert found.architecture is not None


def test_what_was_left_out_says_why(records: list[ModelRecord]) -> None:
    left = json.loads((SEED / "left_out.models.json").read_bytes())
    ids = {record.id for record in records}
    for one in left:
        assert one["kind"] == "models"
        assert one["reason"]
        assert one["id"] not in ids
