"""PostgreSQL is killed while the service answers: estimates go on, writes say 503, all heals."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.addresses import on_database, sqlalchemy_url
from tests.api.test_publishing import RELEASES, change
from tests.service import Service, key_for, running_service
from tonnage.api.fit import EXAMPLE
from tonnage.local.postgres import Server, running
from tonnage.local.up import prepare
from tonnage.settings import Settings


@pytest.fixture
def own_server(server_home: Path) -> Iterator[Server]:
    # Durable, as `make run` starts it: with asynchronous commits a kill loses the last of them,
    # and among those the key that the tests write with.
    with running(server_home / "data", durable=True) as server:
        yield server


@pytest.fixture
def fragile(own_server: Server) -> Iterator[Service]:
    settings = Settings(database_url=sqlalchemy_url(own_server.url), log_format="none")
    prepare(settings)
    with running_service(settings) as service:
        yield service


def until(test: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def test_no_estimate_fails_while_the_database_is_killed_and_comes_back(
    own_server: Server, fragile: Service
) -> None:
    key = key_for(fragile.settings, "tests")
    write = {
        "Authorization": f"Bearer {key}",
        "If-Match": '"1"',
        "Idempotency-Key": "once",  # an answer may be lost although the release was made
    }
    statuses: list[int] = []
    stop = threading.Event()

    def estimate() -> None:
        with httpx.Client(base_url=fragile.url, timeout=30) as client:
            while not stop.is_set():
                statuses.append(client.post("/v1/fit/inference", json=EXAMPLE).status_code)

    workers = [threading.Thread(target=estimate) for _ in range(3)]
    for worker in workers:
        worker.start()
    with httpx.Client(base_url=fragile.url, timeout=30) as client:
        assert client.get("/health/ready").json()["status"] == "ok"
        own_server.kill()
        refused = client.post(RELEASES, json=change(30.0), headers=write)
        assert (refused.status_code, refused.json()["code"]) == (503, "catalog_unavailable")
        assert int(refused.headers["retry-after"]) > 0
        ready = client.get("/health/ready")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert client.get("/v1/models/meta-llama/Llama-3.1-8B").status_code == 200
        during = len(statuses)
        until(lambda: len(statuses) > during + 50)
        own_server.restart()
        until(lambda: client.get("/health/ready").json()["status"] == "ok")
        last = client.post(RELEASES, json=change(30.0), headers=write)
        deadline = time.monotonic() + 40
        while last.status_code != 201:
            assert time.monotonic() < deadline, f"{last.status_code} {last.text}"
            last = client.post(RELEASES, json=change(30.0), headers=write)
        assert client.get("/v1/offers/tests/one").json()["usd_per_hour"] == 30.0
    stop.set()
    for worker in workers:
        worker.join(10)
    assert set(statuses) == {200}
    assert len(statuses) > 100


def test_a_release_of_another_worker_arrives_without_being_asked_for(
    fragile: Service,
) -> None:
    key = key_for(fragile.settings, "tests")
    write = {"Authorization": f"Bearer {key}", "If-Match": '"1"'}
    with (
        running_service(fragile.settings) as other,
        httpx.Client(base_url=fragile.url) as here,
        httpx.Client(base_url=other.url) as there,
    ):
        assert here.post(RELEASES, json=change(30.0), headers=write).status_code == 201
        until(lambda: there.get("/v1/offers/tests/one").status_code == 200, seconds=5)


def test_a_worker_that_starts_without_a_database_is_not_ready_until_there_is_one(
    own_server: Server,
) -> None:
    url = sqlalchemy_url(on_database(own_server.url, "postgres"))
    own_server.kill()
    settings = Settings(database_url=url, log_format="none")
    with (
        running_service(settings) as service,
        httpx.Client(base_url=service.url, timeout=30) as client,
    ):
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        assert client.post("/v1/fit/inference", json=EXAMPLE).status_code == 503
        own_server.restart()
        prepare(settings)
        until(lambda: client.get("/health/ready").status_code == 200)
        assert client.post("/v1/fit/inference", json=EXAMPLE).status_code == 200
