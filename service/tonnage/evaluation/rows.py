"""Files of measured cases: one JSON object a line, recognised by what their rows hold.

Null means that the source did not say; fields that are not used here are passed over.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from .errors import EvaluationError

Row = dict[str, Any]

MODELLED = ("inference_memory", "local_memory")
KINDS = (
    *MODELLED,
    "local_speed",
    "serving_speed",
    "training_memory",
    "training_speed",
    "training_failures",
    "artifacts",
)


class InferenceSetup(msgspec.Struct, frozen=True, kw_only=True):
    weights_dtype: str | None = None
    kv_cache_dtype: str | None = None
    gpu: str | None = None
    gpu_memory_gib_reported: float | None = None
    gpus: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    free_gpu_memory_fraction: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    other: str | None = None


class InferenceObserved(msgspec.Struct, frozen=True, kw_only=True):
    weights_gib_per_gpu: float | None = None
    available_kv_gib_per_gpu: float | None = None
    activation_peak_gib: float | None = None
    non_torch_gib: float | None = None
    cudagraph_gib: float | None = None
    cudagraph_estimated_gib: float | None = None
    kv_tokens: float | None = None
    num_gpu_blocks: float | None = None
    block_size: int | None = None
    max_concurrency: float | None = None
    max_concurrency_len: int | None = None
    outcome: str | None = None


class InferenceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: str | None = None
    engine: str
    engine_version: str | None = None
    model: str | None = None
    base_model: str | None = None
    setup: InferenceSetup
    observed: InferenceObserved
    quality: str | None = None
    note: str | None = None


class LocalSetup(msgspec.Struct, frozen=True, kw_only=True):
    device: str | None = None
    devices: int | None = None
    device_memory_gib: float | None = None
    n_ctx: int | None = None
    n_parallel: int | None = None
    n_ubatch: int | None = None
    flash_attn: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    ngl: int | None = None
    layers_total: int | None = None


class LocalObserved(msgspec.Struct, frozen=True, kw_only=True):
    model_size_gib: float | None = None
    bpw: float | None = None
    weights_gpu_mib: float | None = None
    weights_cpu_mib: float | None = None
    kv_mib: float | None = None
    compute_mib: float | None = None
    outcome: str | None = None
    required_mib: float | None = None


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """Hyper-parameters as llama.cpp prints them when it loads a file."""

    arch: str | None = None
    n_vocab: int | None = None
    n_embd: int | None = None
    n_layer: int | None = None
    n_head: int | None = None
    n_head_kv: int | None = None
    n_embd_head_k: int | None = None
    n_ff: int | None = None
    n_expert: int | None = None
    n_expert_used: int | None = None
    n_swa: int | None = None


class LocalExtra(msgspec.Struct, frozen=True, kw_only=True):
    mla: bool | None = None
    compute_per_device: dict[str, float] | None = None


class LocalRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    source: str | None = None
    engine: str
    build: str | None = None
    model: str | None = None
    gguf_quant: str | None = None
    setup: LocalSetup
    observed: LocalObserved
    quality: str | None = None
    note: str | None = None
    arch: Shape | None = None
    extra: LocalExtra | None = None


def read_rows(path: Path) -> list[Row]:
    """The rows of a file. Raises EvaluationError for a missing file or a line that is no object."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise EvaluationError(f"{path} can not be read: {_reason(problem)}.") from problem
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as problem:
            raise EvaluationError(
                f"Line {number} of {path.name} is not JSON: {problem.msg} at column "
                f"{problem.colno}."
            ) from problem
        if not isinstance(row, dict):
            raise EvaluationError(f"Line {number} of {path.name} is not a JSON object.")
        rows.append(row)
    if not rows:
        raise EvaluationError(f"{path.name} has no rows.")
    return rows


def _reason(problem: OSError | UnicodeDecodeError) -> str:
    if isinstance(problem, OSError):
        return (problem.strerror or str(problem)).lower()
    return "it is not UTF-8 text"


def kind_of(rows: list[Row], name: str) -> str:
    """The kind that the first row with telling fields is of."""
    for row in rows:
        found = _kind_of_row(row)
        if found is not None:
            return found
    raise EvaluationError(
        f"The rows of {name} are of no kind that is known; state one of {', '.join(KINDS)}."
    )


_TELLING = (
    ("inference_memory", ("weights_gib_per_gpu", "available_kv_gib_per_gpu", "kv_tokens")),
    ("local_memory", ("weights_gpu_mib", "kv_mib", "compute_mib")),
    ("serving_speed", ("tpot_ms_mean", "ttft_ms_mean", "tpot_ms", "ttft_ms")),
    ("training_failures", ("total_interruptions", "checkpoint_size_gib", "mtbi_s")),
)


def _kind_of_row(row: Row) -> str | None:
    observed = row.get("observed")
    if not isinstance(observed, dict):
        observed = {}
    if "expect" in row and "file" in row:
        return "artifacts"
    if "framework" in row:
        has_peak = observed.get("peak_memory_gib_per_gpu") is not None
        return "training_memory" if has_peak else "training_speed"
    if "test" in row and "tokens_per_s" in row:
        return "local_speed"
    for kind, names in _TELLING:
        if any(name in observed for name in names):
            return kind
    return None
