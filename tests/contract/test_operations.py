"""Every operation of the contract against the real service, with valid and invalid requests."""

from collections import Counter

import httpx
import pytest
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.pytest._test_builder import build_operation_test

from tests.contract.conftest import Target
from tests.contract.generation import AnyCase, against_latest, contract_schema, is_positive
from tests.service import Service
from tonnage.api.surface import OPERATIONS, document

LABELS = [f"{m.upper()} {path}" for path, found in document()["paths"].items() for m in found]
SUCCESS: dict[tuple[str, str], int] = {(op.method, op.path): op.status for op in OPERATIONS}
LEAST_SHARE = 0.2
"""Of the valid requests, answered with success: with less, a schema would hardly be tested."""


@pytest.fixture
def target(label: str, request: pytest.FixtureRequest) -> Target:
    if label.startswith("POST /v1/catalog/releases"):
        found: Target = request.getfixturevalue("publishing")
        return found
    service: Service = request.getfixturevalue("shared_service")
    return Target(service.url)


@pytest.mark.parametrize("label", LABELS)
def test_operation_keeps_the_contract(label: str, target: Target) -> None:
    method, path = label.split(" ")
    schema = contract_schema(target)
    statuses: Counter[int] = Counter()

    def keeps_the_contract(case: AnyCase) -> None:
        if target.key is not None:
            against_latest(case, target)
        response = case.call_and_validate()
        if is_positive(case):
            statuses[response.status_code] += 1

    # What `schema.parametrize()` does, but when the test runs: at collection it takes 10 seconds.
    build_operation_test(
        config=schema.config,
        operation=schema[path][method],
        test_func=keeps_the_contract,
        given_kwargs={},
        feedback=FeedbackSources(),
    )()
    success = SUCCESS[method.replace("HEAD", "GET"), path]
    assert statuses[success] >= LEAST_SHARE * statuses.total(), f"valid requests got {statuses}"


@pytest.mark.parametrize("text", ["x", "WzFd", "WzAsImEiXQ", "é", "=", "bnVsbA"])
def test_a_cursor_that_the_service_did_not_make_is_refused(text: str, api: httpx.Client) -> None:
    answer = api.get("/v1/models", params={"after": text})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


def test_a_cursor_keeps_to_its_release(api: httpx.Client) -> None:
    following = api.get("/v1/models", params={"limit": 1}).json()["next"]
    answer = api.get("/v1/models", params={"after": following, "release": 2})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_cursor")


def test_what_a_column_of_text_can_not_hold_is_refused(api: httpx.Client) -> None:
    body = {"id": "a/b", "name": "a\0b", "config": {}}
    answer = api.post("/v1/models/import", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_field")


@pytest.mark.parametrize("text", ["null", "NULL", "Null"])
def test_null_in_an_address_is_a_word(text: str, api: httpx.Client) -> None:
    """A lenient decoder reads None, and drops the filter without a word."""
    assert api.get("/v1/models", params={"release": text}).status_code == 400
    assert api.get("/v1/models", params={"vendor": text}).json()["total"] == 0


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1/formats/bf16", "/v1/catalog/releases/latest", "/v1/catalog/releases/1"],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_etag_that_still_holds_is_answered_with_304(
    method: str, path: str, api: httpx.Client
) -> None:
    tag = api.get(path).headers["etag"]
    answer = api.request(method, path, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (answer.status_code, answer.content) == (304, b"")
    assert answer.headers["etag"] == tag
