"""POST /v1/fit/inference as a caller sees it."""

from typing import Any

import httpx
import msgspec
import pytest

from tonnage.api.fit import EXAMPLE, LAPTOP
from tonnage.catalog.release import Release
from tonnage.plans.fit import answer_fit
from tonnage.plans.requests import FitInferenceRequest

FIT = "/v1/fit/inference"


def test_the_example_is_answered_with_a_ledger_that_adds_up(api: httpx.Client) -> None:
    answer = api.post(FIT, json=EXAMPLE).json()
    assert answer["verdict"] == "fits"
    (ranks,) = answer["ledger"]
    for end, other in (("expected", "expected"), ("low", "high"), ("high", "low")):
        taken = sum(entry["bytes"][end] for entry in ranks["components"])
        assert ranks["usable"] == taken + ranks["free"][other]


def test_the_service_and_the_engine_answer_alike_to_the_byte(
    api: httpx.Client, seed: Release
) -> None:
    for request in (EXAMPLE, LAPTOP):
        served = api.post(FIT, json=request).content
        own = msgspec.json.encode(answer_fit(msgspec.convert(request, FitInferenceRequest), seed))
        assert served == own


def test_the_identity_names_what_the_answer_depends_on(api: httpx.Client) -> None:
    identity = api.post(FIT, json=EXAMPLE).json()["identity"]
    latest = api.get("/v1/catalog/releases/latest").json()
    assert identity["catalog_release"] == latest["number"]
    assert identity["catalog_digest"] == latest["digest"]
    assert identity["request_digest"].startswith("sha256:")
    assert identity["schema_version"] == 1


def test_a_release_that_is_named_is_the_one_that_answers(api: httpx.Client) -> None:
    first = api.post(FIT, json=EXAMPLE, params={"release": 1})
    assert first.json()["identity"]["catalog_release"] == 1
    missing = api.post(FIT, json=EXAMPLE, params={"release": 999})
    assert missing.status_code == 404
    assert missing.json()["code"] == "unknown_release"


def test_an_ambiguous_name_takes_the_documented_default_and_says_so(api: httpx.Client) -> None:
    request = {**EXAMPLE, "hardware": {"accelerator": "H100"}}
    answer = api.post(FIT, json=request).json()
    assert answer["subject"]["accelerator"] == "nvidia-h100-80gb-sxm"
    said = [note for note in answer["assumptions"] if note["code"] == "ambiguous_name"]
    assert said
    assert said[0]["pointer"] == "/hardware/accelerator"
    assert "nvidia-h100-80gb-pcie" in said[0]["text"]


def test_a_machine_brings_its_accelerators(api: httpx.Client) -> None:
    request = {**EXAMPLE, "hardware": {"machine": "p5.48xlarge"}, "parallel": {"tensor": 8}}
    subject = api.post(FIT, json=request).json()["subject"]
    assert (subject["accelerator"], subject["accelerator_count"]) == ("nvidia-h100-80gb-sxm", 8)


@pytest.mark.parametrize("name", ["NVIDIA-A100-SXM4-80GB", "A100-80GB", "nvidia-a100-80gb"])
def test_product_labels_and_cloud_names_resolve(api: httpx.Client, name: str) -> None:
    request = {**EXAMPLE, "hardware": {"accelerator": name}}
    assert api.post(FIT, json=request).json()["subject"]["accelerator"] == "nvidia-a100-80gb-sxm"


def test_what_leaves_the_machine_is_said_with_how_to_stop_it(api: httpx.Client) -> None:
    flows = api.post(FIT, json=EXAMPLE).json()["data_flows"]
    assert any("stats.vllm.ai" in flow["destination"] for flow in flows)
    assert all(flow["switch_off"] for flow in flows)


def test_a_model_may_be_sent_inline(api: httpx.Client) -> None:
    record = api.get("/v1/models/meta-llama/Llama-3.1-8B").json()
    inline: dict[str, Any] = {
        **EXAMPLE,
        "model": {"architecture": record["architecture"], "checkpoint_format": "bf16"},
    }
    named, sent = (api.post(FIT, json=body).json() for body in (EXAMPLE, inline))
    assert sent["ledger"] == named["ledger"]
    assert sent["subject"]["model"] is None
