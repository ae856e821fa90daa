"""Limits, request ids, logs, health and metrics."""

import json
import os
import re
import socket
import subprocess
import sys
import time

import httpx

from tests.cli.test_cli import free_port
from tests.service import key_for, running_service
from tonnage.api.fit import EXAMPLE
from tonnage.settings import Settings


def test_a_request_id_is_taken_over_or_made(api: httpx.Client) -> None:
    given = api.get("/health/live", headers={"X-Request-Id": "from-a-gateway.1"})
    assert given.headers["x-request-id"] == "from-a-gateway.1"
    for nonsense in ("a b", "x" * 65, "<script>"):
        made = api.get("/health/live", headers={"X-Request-Id": nonsense}).headers["x-request-id"]
        assert re.fullmatch(r"[0-9a-f]{32}", made)


def test_a_body_that_does_not_come_is_not_waited_for(seeded_url: str) -> None:
    settings = Settings(database_url=seeded_url, log_format="none", request_seconds=0.5)
    with running_service(settings) as service:
        port = int(service.url.rsplit(":", 1)[1])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(
                b"POST /v1/fit/inference HTTP/1.1\r\nHost: x\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            started = time.monotonic()
            answer = slow.recv(4096).decode()
        assert time.monotonic() - started < 5
        assert answer.startswith("HTTP/1.1 408")
        assert "request_timeout" in answer


def test_the_limit_of_bodies_is_a_setting(seeded_url: str) -> None:
    settings = Settings(database_url=seeded_url, log_format="none", largest_body_bytes=1024)
    with running_service(settings) as service:
        body = json.dumps(EXAMPLE) + " " * 1024
        headers = {"Content-Type": "application/json"}
        url = f"{service.url}/v1/fit/inference"
        assert httpx.post(url, content=body, headers=headers).status_code == 413
        chunks = (part.encode() for part in (body[:500], body[500:]))
        assert httpx.post(url, content=chunks, headers=headers).status_code == 413
        assert httpx.post(url, json=EXAMPLE).status_code == 200


def test_metrics_count_operations_and_not_addresses(api: httpx.Client) -> None:
    api.get("/v1/models/meta-llama/Llama-3.1-8B")
    api.get("/no/such/address/4711")
    text = api.get("/metrics").text
    assert 'tonnage_http_requests_total{method="GET",operation="getModel",status="200"}' in text
    assert "tonnage_http_request_seconds_bucket" in text
    assert "4711" not in text
    assert "Llama" not in text


def test_logs_are_json_lines_without_secrets(seeded_url: str) -> None:
    port = free_port()
    environment = {**os.environ, "DATABASE_URL": seeded_url, "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", "serve"], env=environment, stdout=subprocess.PIPE
    )
    address = f"http://127.0.0.1:{port}"
    key = key_for(Settings(database_url=seeded_url), "tests")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{address}/health/ready").status_code == 200:
                break
        except httpx.TransportError:
            time.sleep(0.05)
    headers = {"Authorization": f"Bearer {key}", "X-Request-Id": "mine"}
    httpx.post(f"{address}/v1/catalog/releases", json={}, headers=headers)
    process.terminate()
    text = process.communicate(timeout=20)[0].decode()
    assert process.returncode == 0
    lines = [json.loads(line) for line in text.splitlines()]
    (own,) = [line for line in lines if line.get("request_id") == "mine"]
    assert own["operation"] == "publishRelease"
    assert own["status"] == 428
    assert own["ms"] > 0
    password = seeded_url.split(":")[2].split("@")[0]
    assert key not in text
    assert password not in text
