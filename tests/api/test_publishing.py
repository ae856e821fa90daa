"""Writing the catalog: one release at a time, all of it or nothing, and only with a key."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.service import Service, key_for, running_service
from tonnage.api.keys import revoke_key
from tonnage.api.releases import EXAMPLE
from tonnage.database import create_pool
from tonnage.settings import Settings

RELEASES = "/v1/catalog/releases"


def change(price: float, offer: str = "tests/one") -> dict[str, Any]:
    """A change set that puts one offer."""
    body: dict[str, Any] = json.loads(json.dumps(EXAMPLE))
    body["changes"][0]["record"] |= {"id": offer, "usd_per_hour": price}
    return body


def test_a_change_set_becomes_the_next_release(writer: httpx.Client) -> None:
    answer = writer.post(RELEASES, json=change(30.0), headers={"If-Match": '"1"'})
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/catalog/releases/2"
    assert answer.headers["etag"] == '"2"'
    made = answer.json()
    assert (made["number"], made["author"]) == (2, "tests")
    assert writer.get("/v1/offers/tests/one").json()["usd_per_hour"] == 30.0
    assert writer.get("/v1/offers/tests/one", params={"release": 1}).status_code == 404
    difference = writer.get(f"{RELEASES}/1/diff/2").json()
    assert difference["changes"] == [
        {"kind": "offers", "id": "tests/one", "change": "added", "fields": []}
    ]


def test_what_changed_is_told_field_by_field_and_history_keeps_it(writer: httpx.Client) -> None:
    writer.post(RELEASES, json=change(30.0), headers={"If-Match": '"1"'})
    writer.post(RELEASES, json=change(31.0), headers={"If-Match": '"2"'})
    retire = {"message": "gone", "changes": [{"op": "retire", "kind": "offers", "id": "tests/one"}]}
    writer.post(RELEASES, json=retire, headers={"If-Match": '"3"'})
    (changed,) = writer.get(f"{RELEASES}/2/diff/3").json()["changes"]
    assert changed["fields"] == [{"pointer": "/usd_per_hour", "before": 30.0, "after": 31.0}]
    (retired,) = writer.get(f"{RELEASES}/3/diff/4").json()["changes"]
    assert retired["change"] == "retired"
    versions = writer.get("/v1/catalog/history/offers/tests/one").json()["items"]
    spans = [(v["released_in"], v["retired_in"], v["record"]["usd_per_hour"]) for v in versions]
    assert spans == [(2, 3, 30.0), (3, 4, 31.0)]
    assert writer.get("/v1/offers/tests/one").status_code == 404
    assert writer.get("/v1/offers/tests/one", params={"release": 3}).status_code == 200


def test_an_old_release_answers_the_same_bytes_after_newer_ones(writer: httpx.Client) -> None:
    from tonnage.api.fit import EXAMPLE as FIT

    before = writer.post("/v1/fit/inference", json=FIT, params={"release": 1}).content
    writer.post(RELEASES, json=change(30.0), headers={"If-Match": '"1"'})
    assert writer.post("/v1/fit/inference", json=FIT).json()["identity"]["catalog_release"] == 2
    assert writer.post("/v1/fit/inference", json=FIT, params={"release": 1}).content == before


def test_of_two_writers_one_publishes_and_the_other_is_told_so(writer: httpx.Client) -> None:
    def publish(number: int) -> httpx.Response:
        body = change(30.0 + number, f"tests/{number}")
        return writer.post(RELEASES, json=body, headers={"If-Match": '"1"'})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(publish, range(8)))
    assert sorted(a.status_code for a in answers) == [201] + [412] * 7
    stale = next(a for a in answers if a.status_code == 412)
    assert stale.json()["code"] == "stale_release"
    assert [r["number"] for r in writer.get(RELEASES).json()["items"]] == [2, 1]
    assert writer.get("/v1/offers", params={"q": "tests"}).json()["total"] == 1


def test_an_unsound_change_set_leaves_nothing_half_written(writer: httpx.Client) -> None:
    body = change(30.0)
    body["changes"].append({"op": "retire", "kind": "offers", "id": "not/there"})
    second = json.loads(json.dumps(body["changes"][0]))
    second["record"] |= {"id": "tests/two", "machine": "not/a-machine"}
    body["changes"].append(second)
    answer = writer.post(RELEASES, json=body, headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["code"]) == (422, "unsound_change")
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert "/changes/1/id" in pointers
    assert "/changes/2/record" in pointers
    assert writer.get(f"{RELEASES}/latest").json()["number"] == 1
    assert writer.get("/v1/offers/tests/one").status_code == 404


def test_a_repeated_request_is_answered_with_the_release_it_made(writer: httpx.Client) -> None:
    headers = {"If-Match": '"1"', "Idempotency-Key": "first"}
    once = writer.post(RELEASES, json=change(30.0), headers=headers)
    again = writer.post(RELEASES, json=change(30.0), headers=headers)
    assert (once.status_code, again.status_code) == (201, 201)
    assert once.content == again.content
    other = writer.post(RELEASES, json=change(31.0), headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert writer.get(f"{RELEASES}/latest").json()["number"] == 2


@pytest.mark.parametrize(
    ("given", "status"), [(None, 428), ("7", 400), ('W/"1"', 400), ("*", 400), ('"1", "2"', 400)]
)
def test_if_match_is_needed_and_is_a_release(
    writer: httpx.Client, given: str | None, status: int
) -> None:
    headers = {} if given is None else {"If-Match": given}
    assert writer.post(RELEASES, json=change(30.0), headers=headers).status_code == status


def test_a_write_needs_a_valid_key_with_the_scope(service: Service) -> None:
    headers = {"If-Match": '"1"'}
    with httpx.Client(base_url=service.url) as client:

        def publish(authorization: str | None) -> httpx.Response:
            extra = {"Authorization": authorization} if authorization else {}
            return client.post(RELEASES, json=change(30.0), headers={**headers, **extra})

        refused = publish(None)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        valid = key_for(service.settings, "tests")
        forged = valid[:-1] + ("A" if valid[-1] != "A" else "B")
        for wrong in (
            "Bearer nonsense",
            "Basic Zm9vOmJhcg==",
            f"Bearer {forged}",
            "Bearer tng_x_y",
        ):
            assert publish(wrong).status_code == 401
        reader = key_for(service.settings, "reader", ())
        assert publish(f"Bearer {reader}").json()["code"] == "scope_required"
        revoked = key_for(service.settings, "revoked")

        async def revoke() -> None:
            engine = create_pool(service.settings)
            async with engine.begin() as connection:
                assert await revoke_key(connection, revoked.split("_")[1])
            await engine.dispose()

        asyncio.run(revoke())
        assert publish(f"Bearer {revoked}").status_code == 401
        assert publish(f"Bearer {valid}").status_code == 201


def test_reads_can_be_closed_too(seeded_url: str) -> None:
    settings = Settings(database_url=seeded_url, log_format="none", reads_need_key=True)
    with running_service(settings) as closed, httpx.Client(base_url=closed.url) as client:
        assert client.get("/v1/models").status_code == 401
        assert client.get("/health/live").status_code == 200
        assert client.get("/openapi.json").status_code == 200
        key = key_for(settings, "reader", ())
        with_key = {"Authorization": f"Bearer {key}"}
        assert client.get("/v1/models", headers=with_key).status_code == 200
        assert client.get("/v1/models", headers={"Authorization": "Bearer x"}).status_code == 401


def test_an_imported_model_can_be_published_and_asked_about(writer: httpx.Client) -> None:
    from tonnage.api.fit import EXAMPLE as FIT
    from tonnage.api.imports import EXAMPLE as IMPORT

    imported = writer.post("/v1/models/import", json=IMPORT)
    assert imported.status_code == 200
    record = imported.json()["record"]
    body = {"message": "a small model", "changes": [{"op": "put", "record": record}]}
    assert writer.post(RELEASES, json=body, headers={"If-Match": '"1"'}).status_code == 201
    answer = writer.post("/v1/fit/inference", json={**FIT, "model": IMPORT["id"]}).json()
    assert answer["subject"]["model"] == IMPORT["id"]
    assert answer["subject"]["parameters"] == imported.json()["parameters"]
