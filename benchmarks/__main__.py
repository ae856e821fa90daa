"""``make bench``: how fast is POST /v1/fit/inference beside what the framework alone can do?

Each server is one uvicorn worker on one core, the client has another; all figures are of one run on
one machine, and what is asserted is their ratio. Requests differ from each other, so nothing is
answered from a cache of answers.
"""

import itertools
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks import cpu
from benchmarks.client import Address, Figures, measure
from benchmarks.servers import ECHO, EMPTY, SERVICE, running
from tonnage.local.up import database, prepare
from tonnage.settings import Settings

ROUNDS = 5
SECONDS = 1.0
DECODE_AND_ENCODE = "(b) Litestar decodes and encodes the body"
FIT = "POST /v1/fit/inference, fits"
LEAST_SHARE_OF_ECHO = 0.5
GOAL_MILLISECONDS = 1.0
GOAL_PER_SECOND = 2000


class Pair(NamedTuple):
    """At one connection and at sixteen."""

    one: Figures
    many: Figures


def requests(models: list[str], contexts: list[int], sequences: list[int]) -> list[bytes]:
    """Distinct bodies; every one asks about another workload."""
    return [
        msgspec.json.encode(
            {
                "model": model,
                "hardware": {"accelerator": "nvidia-h100-80gb-sxm", "count": 1},
                "runtime": {
                    "name": "vllm",
                    "version": "0.11.0",
                    "flags": {"gpu_memory_utilization": 0.9},
                },
                "formats": {"weights": "bf16", "kv_cache": "auto"},
                "parallel": {"tensor": 1, "pipeline": 1, "data": 1, "expert": 1},
                "workload": {"context_tokens": context, "concurrent_sequences": count},
            }
        )
        for model, context, count in itertools.product(models, contexts, sequences)
    ]


FITTING = requests(
    ["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1"],
    [1024 + 97 * n for n in range(40)],
    [1, 2, 3, 4],
)
NOT_FITTING = requests(
    ["meta-llama/Llama-3.1-70B-Instruct"], [4096 + 511 * n for n in range(40)], [8, 16, 32]
)


def main() -> int:
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, one worker each")
    print(f"medians of {ROUNDS} rounds in which all take turns")
    with _targets() as targets:
        rounds = [
            {
                name: Pair(*(measure(address, bodies, n, SECONDS) for n in (1, 16)))
                for name, (address, bodies) in targets.items()
            }
            for _ in range(ROUNDS)
        ]
    print(f"{'':46}{'1 connection':^28}{'16 connections':^28}")
    print(f"{'':46}{'req/s':>8}{'p50 ms':>9}{'p99 ms':>9}  {'req/s':>10}{'p50 ms':>9}{'p99 ms':>9}")
    for name in rounds[0]:
        one, many = (_median([taken[name][n] for taken in rounds]) for n in (0, 1))
        print(
            f"{name:46}{one.per_second:8.0f}{one.p50_ms:9.3f}{one.p99_ms:9.3f}  "
            f"{many.per_second:10.0f}{many.p50_ms:9.3f}{many.p99_ms:9.3f}"
        )
    failed = _verdict(rounds)
    cpu.report()
    return failed


def _median(figures: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*figures, strict=True)))


@contextmanager
def _targets() -> Iterator[dict[str, tuple[Address, list[bytes]]]]:
    """All servers at once; one that is not asked costs nothing."""
    with (
        _scratch() as scratch,
        database(scratch, durable=False) as settings,
        running(EMPTY, {}) as empty,
        running(ECHO, {}) as echo,
    ):
        prepare(settings)
        environment = {"DATABASE_URL": settings.sqlalchemy_url, "TONNAGE_LOG_FORMAT": "json"}
        with running(SERVICE, environment) as service:
            fit = ("POST", service, "/v1/fit/inference")
            yield {
                "(a) an empty Litestar JSON handler": (("GET", empty, "/"), [b""]),
                DECODE_AND_ENCODE: (("POST", echo, "/"), FITTING),
                FIT: (fit, FITTING),
                "POST /v1/fit/inference, with remedies": (fit, NOT_FITTING),
            }


@contextmanager
def _scratch() -> Iterator[Settings]:
    """A database for this run alone, in a folder that PostgreSQL's account can enter."""
    with tempfile.TemporaryDirectory(prefix="tonnage-bench-") as folder:
        Path(folder).chmod(0o711)
        yield msgspec.structs.replace(Settings.read(), data_directory=folder)


def _verdict(rounds: list[dict[str, Pair]]) -> int:
    """The ratio is of neighbours in time, so that a machine's slower minute does not enter it."""
    shares = [
        taken[FIT].many.per_second / taken[DECODE_AND_ENCODE].many.per_second for taken in rounds
    ]
    share = statistics.median(shares)
    failed = share < LEAST_SHARE_OF_ECHO
    p50_ms = statistics.median(taken[FIT].one.p50_ms for taken in rounds)
    per_second = statistics.median(taken[FIT].many.per_second for taken in rounds)
    print(
        f"\nfit is {share:.0%} of (b) in requests/s ({min(shares):.0%} to {max(shares):.0%}): "
        f"{'FAILED' if failed else 'ok'}, least {LEAST_SHARE_OF_ECHO:.0%}"
    )
    print(
        f"p50 at one connection {p50_ms:.3f} ms: goal under {GOAL_MILLISECONDS:g} ms "
        f"{'reached' if p50_ms < GOAL_MILLISECONDS else 'not reached here'}"
    )
    print(
        f"{per_second:.0f} requests/s a worker: goal over {GOAL_PER_SECOND} "
        f"{'reached' if per_second > GOAL_PER_SECOND else 'not reached here'}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
