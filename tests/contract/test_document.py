"""The contract as a document, and the pages that show it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.contract.generation import BUILT
from tonnage.api.fit import EXAMPLE as FIT
from tonnage.api.imports import EXAMPLE as IMPORT
from tonnage.api.operations import Example, Operation
from tonnage.api.surface import OPERATIONS

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"
SCHEMAS: dict[str, Any] = BUILT["components"]["schemas"]
WITH_BODY = [op for op in OPERATIONS if op.body is not None]
EXAMPLES = [(op, example) for op in WITH_BODY for example in op.examples]


def responses() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in BUILT["paths"].items():
        for method, operation in methods.items():
            for status, response in operation["responses"].items():
                yield f"{method.upper()} {path}", status, response


def schemas(of: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside one, itself too."""
    if isinstance(of, dict):
        yield of
        for part in of.values():
            yield from schemas(part)
    elif isinstance(of, list):
        for part in of:
            yield from schemas(part)


def test_the_committed_contract_is_the_built_one() -> None:
    assert msgspec.json.decode(COMMITTED.read_bytes()) == BUILT


def test_the_contract_is_valid_openapi() -> None:
    errors = list(OpenAPIV31SpecValidator(BUILT).iter_errors())
    assert errors == []


def test_operation_ids_are_unique() -> None:
    found = [op["operationId"] for path in BUILT["paths"].values() for op in path.values()]
    assert len(found) == len(set(found))


def test_a_request_has_no_room_for_fields_that_are_not_read() -> None:
    open_ones = [name for name in _of_requests() if _is_open(SCHEMAS[name])]
    assert open_ones == []


def _of_requests() -> set[str]:
    """Names of all schemas that a body is made of."""
    found: set[str] = set()
    waiting = [op.body.__name__ for op in WITH_BODY]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            references = [part.get("$ref", "") for part in schemas(SCHEMAS[name])]
            waiting += [ref.rsplit("/", 1)[1] for ref in references if isinstance(ref, str) and ref]
    return found


def _is_open(schema: dict[str, Any]) -> bool:
    return "properties" in schema and schema.get("additionalProperties") is not False


def test_a_union_of_objects_says_which_it_is() -> None:
    for name, component in SCHEMAS.items():
        for schema in schemas(component):
            options = [o for o in schema.get("anyOf", ()) if isinstance(o, dict) and "$ref" in o]
            if len(options) > 1:
                mapping = schema["discriminator"]["mapping"]
                assert sorted(mapping.values()) == sorted(o["$ref"] for o in options), name


def test_errors_are_problems_and_success_is_described() -> None:
    for operation, status, response in responses():
        if operation.startswith("HEAD") or status == "304":
            assert "content" not in response, (operation, status)
        elif status >= "400":
            problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
            assert response["content"] == {"application/problem+json": problem}, (operation, status)
        else:
            assert response["content"], (operation, status)


def test_what_answers_304_takes_the_header_that_asks_for_it() -> None:
    for path, methods in BUILT["paths"].items():
        for method, operation in methods.items():
            headers = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "header"}
            wanted = "304" in operation["responses"]
            assert ("If-None-Match" in headers) == wanted, (method, path)


def test_links_lead_to_operations() -> None:
    known = {op["operationId"] for path in BUILT["paths"].values() for op in path.values()}
    for operation, _, response in responses():
        for link in response.get("links", {}).values():
            assert link["operationId"] in known, operation


@pytest.mark.parametrize("operation", WITH_BODY, ids=lambda op: op.id)
def test_a_body_has_an_example(operation: Operation) -> None:
    assert operation.examples


@pytest.mark.parametrize(
    ("operation", "example"), EXAMPLES, ids=[f"{op.id}-{example.name}" for op, example in EXAMPLES]
)
def test_an_example_is_answered_with_success(
    operation: Operation, example: Example, request: pytest.FixtureRequest
) -> None:
    client: httpx.Client = request.getfixturevalue("writer" if operation.scope else "api")
    headers = {"If-Match": '"1"'} if operation.scope else {}
    answer = client.post(operation.path, json=example.value, headers=headers)
    assert answer.status_code == operation.status, answer.text


ACCELERATOR, MACHINE = "nvidia-l4", "aws/p5.48xlarge"


@pytest.mark.parametrize(
    "hardware",
    [
        {},
        {"accelerator": ACCELERATOR},
        {"machine": MACHINE},
        {"accelerator": ACCELERATOR, "machine": MACHINE},
        {"accelerator": None},
        {"machine": None},
        {"accelerator": None, "machine": None},
        {"accelerator": ACCELERATOR, "machine": None},
        {"accelerator": None, "machine": MACHINE},
    ],
    ids=str,
)
def test_the_schema_of_hardware_takes_what_the_service_takes(
    hardware: dict[str, Any], api: httpx.Client
) -> None:
    body = {**FIT, "hardware": hardware, "parallel": None}
    answer = api.post("/v1/fit/inference", json=body)
    assert is_valid("FitInferenceRequest", body) == (answer.status_code == 200), answer.text


@pytest.mark.parametrize(
    "config",
    [{}, {"config": None}, {"config": IMPORT["config"]}],
    ids=["no config", "config null", "config"],
)
@pytest.mark.parametrize(
    "header",
    [{}, {"gguf_header": None}, {"gguf_header": "R0dVRg=="}],
    ids=["no header", "header null", "header"],
)
def test_the_schema_of_an_import_wants_one_source(
    config: dict[str, Any], header: dict[str, Any], api: httpx.Client
) -> None:
    body = {"id": IMPORT["id"], **config, **header}
    problem = api.post("/v1/models/import", json=body).json().get("code")
    assert is_valid("ImportModelRequest", body) == (problem != "contradiction")


def is_valid(name: str, value: object) -> bool:
    schema = {"$ref": f"#/components/schemas/{name}", "components": BUILT["components"]}
    return jsonschema_rs.is_valid(schema, value)


@pytest.mark.parametrize("text", ["0.11.0\n", "0.11.0\u2028", "0.11.\u0661"])
def test_a_pattern_means_to_python_what_it_means_to_others(text: str, api: httpx.Client) -> None:
    body = {**FIT, "runtime": {"name": "vllm", "version": text}}
    assert not is_valid("FitInferenceRequest", body)
    assert api.post("/v1/fit/inference", json=body).status_code == 400


def test_the_contract_is_served(api: httpx.Client) -> None:
    answer = api.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == BUILT


@pytest.mark.parametrize("page", ["/docs", "/docs/problems"])
def test_a_page_needs_nothing_from_outside(page: str, api: httpx.Client) -> None:
    answer = api.get(page)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not re.search(r"https?:|['\"(]//", answer.text)


def test_the_files_of_the_page_are_served(api: httpx.Client) -> None:
    files = re.findall(r'(?:href|src)="([^"]+)"', api.get("/docs").text)
    types = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
    assert len(files) == 3
    for name in files:
        answer = api.get(name)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == types[Path(name).suffix]
        assert not re.search(r"@import|url\(['\"]?https?:", answer.text)
