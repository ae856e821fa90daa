"""Bad input is a product feature: each of the peers' failures is a clear 4xx here.

The cases are what comparable tools answered with 200, a traceback or a wrong cause.
"""

import json
from typing import Any

import httpx
import pytest

from tonnage.api.fit import EXAMPLE
from tonnage.api.problems import TABLE

FIT = "/v1/fit/inference"
JSON = {"Content-Type": "application/json"}


def with_changes(changes: dict[str, Any]) -> dict[str, Any]:
    """The example with values put in at JSON pointers."""
    body: dict[str, Any] = json.loads(json.dumps(EXAMPLE))
    for pointer, value in changes.items():
        *path, last = pointer.strip("/").split("/")
        place = body
        for step in path:
            place = place.setdefault(step, {})
        place[last] = value
    return body


def changed(pointer: str, value: Any) -> dict[str, Any]:
    return with_changes({pointer: value})


def problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, found["status"], found["code"]) == (status, status, code)
    assert found["title"] == TABLE[code].title
    assert found["type"] == f"/docs/problems#{code}"
    assert found["request_id"] == answer.headers["x-request-id"]
    return found


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/workload/context_tokens", -5),
        ("/workload/context_tokens", 0),
        ("/workload/context_tokens", 10**24),
        ("/workload/context_tokens", 8192.0),
        ("/workload/context_tokens", "8192"),
        ("/workload/context_tokens", None),
        ("/workload/concurrent_sequences", -3),
        ("/workload/concurrent_sequences", 10**12),
        ("/hardware/count", -1),
        ("/hardware/count", 0),
        ("/hardware/memory_in_use_bytes", -1),
        ("/parallel/data", -1),
        ("/parallel/pipeline", 0),
        ("/runtime/flags/gpu_memory_utilization", 7.5),
        ("/runtime/flags/gpu_memory_utilization", 5),
        ("/runtime/flags/gpu_memory_utilization", 0),
        ("/runtime/flags/gpu_memory_utilization", -0.5),
        ("/runtime/flags/block_size", 0),
        ("/runtime/flags/max_model_len", -5),
        ("/runtime/version", "0.11; rm -rf /"),
        ("/model", ""),
        ("/model", 7),
    ],
)
def test_values_out_of_range_or_of_another_type(
    api: httpx.Client, pointer: str, value: Any
) -> None:
    found = problem(api.post(FIT, json=changed(pointer, value)), 400, "invalid_field")
    assert found["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_no_number_is_not_json(api: httpx.Client, text: str) -> None:
    body = json.dumps(EXAMPLE).replace("0.9", text)
    found = problem(api.post(FIT, content=body, headers=JSON), 400, "malformed_json")
    assert "NaN" in found["detail"]


def test_a_number_beyond_any_float_is_refused(api: httpx.Client) -> None:
    body = json.dumps(EXAMPLE).replace("0.9", "1e999")
    answer = api.post(FIT, content=body, headers=JSON)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("pointer", "meant"),
    [
        ("/hardwre", "hardware"),
        ("/hardware/acelerator", "accelerator"),
        ("/workload/context_token", "context_tokens"),
        ("/runtime/flags/gpu_memory_utilisation", "gpu_memory_utilization"),
        ("/formats/kv_cache_dtype", "kv_cache"),
        ("/parallel/tensr", "tensor"),
    ],
)
def test_a_misspelled_key_is_refused_with_the_one_that_was_meant(
    api: httpx.Client, pointer: str, meant: str
) -> None:
    found = problem(api.post(FIT, json=changed(pointer, 1)), 400, "invalid_field")
    assert found["errors"][0] == {
        "pointer": pointer,
        "message": f"unknown field '{pointer.rsplit('/', 1)[1]}'. Did you mean {meant}?",
        "suggestions": [meant],
    }


def test_a_flag_of_another_runtime_is_not_suggested(api: httpx.Client) -> None:
    request = changed("/runtime", {"name": "sglang", "flags": {"max_num_seqs": 4}})
    found = problem(api.post(FIT, json=request), 400, "invalid_field")["errors"][0]
    assert found["pointer"] == "/runtime/flags/max_num_seqs"
    assert "max_num_seqs" not in found["suggestions"]
    assert "max_running_requests" in found["suggestions"]


def test_a_word_that_is_none_of_a_few_is_answered_with_those(api: httpx.Client) -> None:
    request = changed("/runtime/flags", {"speculative_config": {"method": "mtp2"}})
    found = problem(api.post(FIT, json=request), 400, "invalid_field")["errors"][0]
    assert found["pointer"] == "/runtime/flags/speculative_config/method"
    assert found["suggestions"][0] == "mtp"
    assert found["message"].endswith("one of mtp, draft_model, eagle, medusa, dflash, ngram")


def test_a_runtime_that_is_none_is_answered_with_those_there_are(api: httpx.Client) -> None:
    found = problem(api.post(FIT, json=changed("/runtime/name", "vlm")), 400, "invalid_field")
    assert found["errors"][0]["suggestions"] == [
        "vllm",
        "sglang",
        "tensorrt-llm",
        "tgi",
        "llama.cpp",
        "transformers",
        "ollama",
        "mlx-lm",
        "exllamav2",
        "exllamav3",
    ]


@pytest.mark.parametrize(
    ("pointer", "name", "meant"),
    [
        ("/model", "meta-lama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/hardware/accelerator", "nvidia-h1000", "nvidia-h100-80gb-sxm"),
        ("/hardware/accelerator", "L5", "nvidia-l4"),
        ("/formats/weights", "bff16", "bf16"),
    ],
)
def test_an_unknown_name_is_answered_with_what_was_meant(
    api: httpx.Client, pointer: str, name: str, meant: str
) -> None:
    found = problem(api.post(FIT, json=changed(pointer, name)), 404, "unknown_name")
    assert found["errors"][0]["pointer"] == pointer
    assert meant in found["errors"][0]["suggestions"]


@pytest.mark.parametrize(
    "name", ["../../../etc/passwd", "/work", "https://evil.example/model", "evil-org/remote-code"]
)
def test_a_model_id_is_a_name_and_nothing_else(api: httpx.Client, name: str) -> None:
    """It is looked up: no path is opened, no address fetched, no code of a model run."""
    found = problem(api.post(FIT, json=changed("/model", name)), 404, "unknown_name")
    assert found["errors"][0]["pointer"] == "/model"


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"/hardware/count": 3, "/parallel/tensor": 3}, "/parallel/tensor"),
        ({"/parallel/tensor": 2}, "/parallel"),
        ({"/workload/context_tokens": 2_000_000}, "/workload/context_tokens"),
        ({"/runtime/flags/max_model_len": 4096}, "/workload/context_tokens"),
        ({"/hardware/machine": "p5.48xlarge"}, "/hardware"),
        ({"/hardware/count": 2, "/parallel/tensor": 2, "/parallel/expert": 2}, "/parallel/expert"),
    ],
)
def test_parts_that_exclude_each_other(
    api: httpx.Client, changes: dict[str, Any], pointer: str
) -> None:
    answer = api.post(FIT, json=with_changes(changes))
    assert answer.status_code in (404, 422)
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_fifty_megabytes_are_refused_and_nothing_of_them_comes_back(api: httpx.Client) -> None:
    answer = api.post(FIT, content=b'{"model": "' + b"x" * 50_000_000 + b'"}', headers=JSON)
    problem(answer, 413, "body_too_large")
    assert len(answer.content) < 1000


def test_a_long_wrong_value_is_not_echoed(api: httpx.Client) -> None:
    answer = api.post(FIT, json=changed("/hardware/" + "x" * 100_000, 1))
    problem(answer, 400, "invalid_field")
    assert len(answer.content) < 2000


def test_nesting_without_end_is_no_crash(api: httpx.Client) -> None:
    answer = api.post(FIT, content=b"[" * 100_000, headers=JSON)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""]
)
def test_other_media_types_are_415(api: httpx.Client, media_type: str) -> None:
    headers = {"Content-Type": media_type} if media_type else {}
    answer = api.post(FIT, content=json.dumps(EXAMPLE), headers=headers)
    problem(answer, 415, "unsupported_media_type")


def test_addresses_and_methods_that_are_not_there(api: httpx.Client) -> None:
    problem(api.get("/v1/nothing"), 404, "not_found")
    refused = api.put("/v1/models")
    problem(refused, 405, "method_not_allowed")
    assert "GET" in refused.headers["allow"]


def test_an_unknown_query_parameter_is_refused(api: httpx.Client) -> None:
    found = problem(api.get("/v1/models", params={"limt": 5}), 400, "invalid_query")
    assert found["errors"][0]["suggestions"] == ["limit"]


def test_head_and_options_say_what_a_get_would(api: httpx.Client) -> None:
    whole, head = api.get("/v1/models"), api.head("/v1/models")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["etag"] == whole.headers["etag"]
    options = api.options("/v1/catalog/releases")
    assert options.status_code == 204
    assert options.headers["allow"] == "GET, HEAD, OPTIONS, POST"
