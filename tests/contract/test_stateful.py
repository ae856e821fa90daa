"""Sequences of requests, each made of what the answers before it said."""

import copy
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis import HookContext, Response
from schemathesis.core.failures import FailureGroup

from tests.contract.conftest import Target
from tests.contract.generation import (
    BUILT,
    AnyCase,
    against_latest,
    filter_case,
    is_count,
    load,
    map_what_is_not_named,
)

RELEASES = "/v1/catalog/releases"
RELEASE = f"{RELEASES}/{{number}}"
DIFFERENCE = f"{RELEASES}/{{older}}/diff/{{newer}}"
HISTORY = "/v1/catalog/history/{kind}/{id}"
CHANGED = "$request.body#/changes/0/record"

LINKS: dict[tuple[str, str, str], dict[str, Any]] = {
    (RELEASES, "post", "201"): {
        "offer": {"operationId": "getOffer", "parameters": {"id": f"{CHANGED}/id"}},
    },
}
"""Beside those of the contract: the changes made here are offers."""


READING = ["/v1/offers", "/v1/offers/{id}", HISTORY]
PUBLISHING = [RELEASES, f"{RELEASES}/latest", RELEASE, DIFFERENCE, HISTORY, "/v1/offers/{id}"]
REACHED = {
    "reading": [("GET /v1/offers", 200), ("GET /v1/offers/{id}", 200)],
    "publishing": [
        (f"POST {RELEASES}", 201),
        (f"POST {RELEASES}", 412),
        (f"GET {RELEASE}", 200),
        (f"GET {DIFFERENCE}", 200),
        (f"GET {HISTORY}", 200),
    ],
}


ROUNDS = 3
ROUND = settings(
    max_examples=4,
    stateful_step_count=8,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def linked(paths: list[str]) -> dict[str, Any]:
    """A part of the contract, of one kind of record: the other eight kinds are alike."""
    contract = copy.deepcopy(BUILT)
    # Made-up records of nine kinds take half a second each.
    offer = {"$ref": "#/components/schemas/OfferRecord"}
    contract["components"]["schemas"]["Put"]["properties"]["record"] = offer
    for (path, method, status), links in LINKS.items():
        contract["paths"][path][method]["responses"][status].setdefault("links", {}).update(links)
    chosen = {path: contract["paths"][path] for path in paths}
    ids = {operation["operationId"] for path in chosen.values() for operation in path.values()}
    for path in chosen.values():
        path.pop("head", None)
        for operation in path.values():
            for response in operation["responses"].values():
                links = response.get("links", {})
                response["links"] = {n: k for n, k in links.items() if k["operationId"] in ids}
    return {**contract, "paths": chosen}


def map_case(context: HookContext, case: AnyCase) -> AnyCase:
    if is_count(case.query.get("release")):
        # A made-up release is hardly ever one, and nothing would be found.
        case.query = {name: value for name, value in case.query.items() if name != "release"}
    return map_what_is_not_named(context, case)


@pytest.mark.parametrize(
    ("name", "paths"), [("reading", READING), ("publishing", PUBLISHING)], ids=list(REACHED)
)
def test_sequences_keep_the_contract(name: str, paths: list[str], publishing: Target) -> None:
    schema = load(linked(paths), publishing)
    schema.hook(filter_case)
    schema.hook(map_case)
    answered: Counter[tuple[str, int]] = Counter()
    broken: list[FailureGroup] = []

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def before_call(self, case: AnyCase) -> None:
            super().before_call(case)
            against_latest(case, publishing)

        def after_call(self, response: Response, case: AnyCase) -> None:
            super().after_call(response, case)
            answered[case.operation.label, response.status_code] += 1

        def validate_response(self, *args: Any, **options: Any) -> None:
            try:
                super().validate_response(*args, **options)
            except FailureGroup as failure:
                broken.append(failure)
                raise

    for number in range(ROUNDS):
        seed(number)(Machine)
        # What was published stays, so a sequence that is begun again may find other things there;
        # the round ends with that. A broken contract is never taken for it: it is kept.
        with suppress(FlakyStrategyDefinition):
            Machine.run(settings=ROUND)
        assert not broken, broken[0]
    for operation, status in REACHED[name]:
        assert answered[operation, status], f"{operation} never got {status}: {answered}"
