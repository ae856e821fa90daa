"""What a caller gets back."""

from typing import Any

import msgspec

from tonnage.engine.answer import Capacity, Component, Ledger, Note, Outcome, Verdict
from tonnage.engine.runtime import DataFlow
from tonnage.engine.support import SupportAnswer

SCHEMA_VERSION = 1


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer depends on, and nothing else: the same four give the same bytes."""

    schema_version: int
    catalog_release: int
    catalog_digest: str
    engine_version: str
    request_digest: str


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON merge patch (RFC 7396) on the request, what it costs, and the verdict after it."""

    patch: dict[str, Any]
    cost: str
    verdict: Verdict


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """What the names in the request came to mean; null for what was sent inline."""

    model: str | None
    parameters: int
    accelerator: str | None
    machine: str | None
    accelerator_count: int
    runtime: str
    runtime_version: str
    weight_format: str
    kv_cache_format: str
    tensor_parallel_size: int
    pipeline_parallel_size: int
    data_parallel_size: int
    expert_parallel_size: int


class FitInferenceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    verdict: Verdict
    bound_by: Component
    outcome: Outcome
    """What the runtime would do, and the words that it would print."""
    summary: str
    subject: Subject
    ledger: tuple[Ledger, ...]
    capacity: Capacity
    host_memory_bytes: int
    """Weights and cache that the runtime leaves in system memory."""
    support: SupportAnswer
    remedies: tuple[Remedy, ...]
    assumptions: tuple[Note, ...]
    warnings: tuple[Note, ...]
    data_flows: tuple[DataFlow, ...]
    """What leaves the machine under the runtime's defaults, and how to switch it off."""
    identity: Identity
