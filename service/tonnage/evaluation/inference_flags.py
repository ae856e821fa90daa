"""Which runtime, version and flags does a row of a serving engine mean?"""

import re

import msgspec

from tonnage.engine.flags import (
    SglangFlags,
    Speculative,
    TensorRtLlmFlags,
    TgiFlags,
    VllmFlags,
)
from tonnage.engine.memory.prediction import prediction_layers
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import GIB
from tonnage.plans.requests import (
    RuntimeChoice,
    SglangRuntime,
    TensorRtLlmRuntime,
    TgiRuntime,
    VllmRuntime,
)

from .rows import InferenceRow
from .versions import released, vllm_version

ENGINES = ("vllm", "sglang", "tensorrt-llm", "tgi")
_STATED_DEFAULT = re.compile(r"engine default (0\.\d+)(?!.*version not stated)")
_BLOCK = re.compile(r"block_size (\d+)")
_CONTEXT_PARALLEL = re.compile(r"(?:\bDCP |decode_context_parallel_size )(\d+)")
_OFFLOAD = re.compile(r"cpu_offload_gb (\d+(?:\.\d+)?)")
_OWN_PREDICTION_LAYERS = re.compile(r"\bMTP\b(?:,? (\d+) tokens)?", re.IGNORECASE)
_DRAFT = re.compile(r"speculative: (?!mtp)(\w+)", re.IGNORECASE)
_DRAFT_WEIGHTS = re.compile(r"base [\d.]+ \+ draft ([\d.]+)")
_LORA = re.compile(r"max_loras (\d+)")
_LORA_RANK = re.compile(r"max_lora_rank (\d+)")
_MOST_TOKENS = re.compile(r"max_total_tokens (\d+)")
_PREFILL_TOKENS = re.compile(r"max_batch_prefill_tokens (\d+)")


def runtime_of(row: InferenceRow, model: ModelArchitecture) -> tuple[RuntimeChoice, bool]:
    """The runtime as a request states it, and whether a draft model is left open."""
    other, version = row.setup.other or "", released(row.engine_version)
    match row.engine:
        case "sglang":
            return SglangRuntime(version=version, flags=_sglang(row, other)), False
        case "tensorrt-llm":
            return TensorRtLlmRuntime(version=version, flags=_tensorrt_llm(row)), False
        case "tgi":
            return TgiRuntime(version=version, flags=_tgi(row, other)), False
    drafting, unstated = _drafting(other, model)
    flags = msgspec.structs.replace(_vllm(row), speculative_config=drafting)
    return VllmRuntime(version=vllm_version(row.engine_version), flags=flags), unstated


def _sglang(row: InferenceRow, other: str) -> SglangFlags:
    setup = row.setup
    return SglangFlags(
        mem_fraction_static=setup.mem_fraction_static,
        max_total_tokens=_number(_MOST_TOKENS, other) or None,
        chunked_prefill_size=setup.max_num_batched_tokens,
        disable_cuda_graph=bool(setup.enforce_eager),
        enable_dp_attention="dp_attention" in other,
    )


def _tensorrt_llm(row: InferenceRow) -> TensorRtLlmFlags:
    setup = row.setup
    return TensorRtLlmFlags(
        free_gpu_memory_fraction=setup.free_gpu_memory_fraction,
        max_num_tokens=setup.max_num_batched_tokens,
        max_batch_size=setup.max_num_seqs,
        max_seq_len=setup.max_model_len,
        tokens_per_block=row.observed.block_size,
    )


def _tgi(row: InferenceRow, other: str) -> TgiFlags:
    prefill = row.setup.max_num_batched_tokens or _number(_PREFILL_TOKENS, other) or None
    return TgiFlags(max_batch_prefill_tokens=prefill, max_total_tokens=row.setup.max_model_len)


def _drafting(other: str, model: ModelArchitecture) -> tuple[Speculative | None, bool]:
    """How tokens are drafted ahead, and whether the row leaves open what with."""
    own = _OWN_PREDICTION_LAYERS.search(other)
    if own and prediction_layers(model):
        return Speculative(method="mtp", num_speculative_tokens=int(own.group(1) or 1)), False
    weights = _DRAFT_WEIGHTS.search(other)
    if weights:
        held = round(float(weights.group(1)) * GIB)
        return Speculative(method="medusa", draft_weights_bytes=held), False
    named = _DRAFT.search(other)
    if named and named.group(1) == "ngram":
        return Speculative(method="ngram"), False
    return None, bool(named) and "draft model" not in other


def _vllm(row: InferenceRow) -> VllmFlags:
    setup, other = row.setup, row.setup.other or ""
    stated = _STATED_DEFAULT.search(other)
    block = _BLOCK.search(other)
    utilization = setup.gpu_memory_utilization
    if utilization is None and stated:
        utilization = float(stated.group(1))
    return VllmFlags(
        gpu_memory_utilization=utilization,
        max_model_len=setup.max_model_len,
        max_num_seqs=setup.max_num_seqs,
        max_num_batched_tokens=setup.max_num_batched_tokens,
        block_size=int(block.group(1)) if block else None,
        enforce_eager=bool(setup.enforce_eager),
        use_flashinfer_sampler="FlashInfer sampler" in other,
        enable_prefix_caching="prefix caching off" not in other,
        decode_context_parallel_size=_number(_CONTEXT_PARALLEL, other) or 1,
        cpu_offload_gb=_number(_OFFLOAD, other) or 0,
        language_model_only="language_model_only" in other,
        enable_lora=bool(_LORA.search(other)),
        max_loras=_number(_LORA, other) or 1,
        max_lora_rank=_number(_LORA_RANK, other) or 16,
    )


def _number(pattern: re.Pattern[str], text: str) -> int:
    found = pattern.search(text)
    return int(float(found.group(1))) if found else 0
