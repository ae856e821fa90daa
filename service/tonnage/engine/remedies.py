"""What could be changed to make it fit? Proposals; whoever asks evaluates each.

A proposal is a JSON merge patch (RFC 7396) on the request, in its words, with what it costs. Which
are worth trying depends on the component that binds.
"""

from typing import Any

import msgspec

from .answer import InferenceFit
from .case import InferenceCase
from .flags import (
    LlamaCppFlags,
    OllamaFlags,
    SglangFlags,
    TensorRtLlmFlags,
    TgiFlags,
    TransformersFlags,
    VllmFlags,
)
from .memory.runtimes.shared import heads_divide
from .runtime import LlamaCppEra, VllmEra

Patch = dict[str, Any]


class Proposal(msgspec.Struct, frozen=True):
    """Of proposals on one ``axis``, the first that fits makes the others needless."""

    patch: Patch
    cost: str
    axis: str = ""


def proposals(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    """Cheapest first: settings, then less work, then smaller weights, then more accelerators."""
    single = [*_settings(case, fit), *_less_work(case, fit), *_formats(case)]
    return [*single, *_more_accelerators(case)]


def pairs(case: InferenceCase) -> list[Proposal]:
    """Two changes at once, for when no single one is enough."""
    formats, devices = _formats(case), _more_accelerators(case)
    caches = [Proposal(p, c) for p, c in _cache_formats(case)]
    found = [_both(first, second) for first in devices for second in caches]
    found += [_both(first, second) for first in formats for second in caches]
    return found + [_both(first, second) for first in devices for second in formats]


def _both(first: Proposal, second: Proposal) -> Proposal:
    """With the same first change, the mildest second one that fits is enough."""
    axis = f"{first.cost}; {second.axis}" if second.axis else ""
    return Proposal(_merged(first.patch, second.patch), f"{first.cost}; {second.cost}", axis)


def _merged(first: Patch, second: Patch) -> Patch:
    found = dict(first)
    for key, value in second.items():
        held = found.get(key)
        found[key] = (
            _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
        )
    return found


def _flags(**settings: Any) -> Patch:
    return {"runtime": {"flags": settings}}


def _settings(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    found = [Proposal(patch, cost) for patch, cost in _cache_formats(case)]
    match case.flags:
        case VllmFlags():
            found += _vllm_settings(case, fit)
        case SglangFlags():
            found += _sglang_settings(case.flags)
        case TensorRtLlmFlags():
            found += _tensorrt_llm_settings(case.flags)
        case TgiFlags():
            pass
        case LlamaCppFlags():
            found += _llama_cpp_settings(case, fit)
        case TransformersFlags(attn_implementation="eager"):
            found.append(
                Proposal(_flags(attn_implementation="sdpa"), "none where the model supports it")
            )
        case OllamaFlags(flash_attention=True):
            pass
        case OllamaFlags():
            found.append(Proposal(_flags(flash_attention=True), "none where the model supports it"))
        case _:
            pass
    return found


def _cache_formats(case: InferenceCase) -> list[tuple[Patch, str]]:
    if case.key_cache.encoding.bits_per_element < 16:
        return []
    if case.runtime.accounting == "ollama":
        patch = {"formats": {"kv_cache": "q8_0"}, **_flags(flash_attention=True)}
        return [(patch, "KV cache in q8_0, flash attention on: slight loss of accuracy")]
    format_id = _SMALLER_CACHE.get(case.runtime.accounting or "")
    if format_id is None:
        return []
    return [
        ({"formats": {"kv_cache": format_id}}, f"KV cache in {format_id}: slight loss of accuracy")
    ]


def _vllm_settings(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    flags = case.flags
    assert isinstance(flags, VllmFlags)
    era = case.era
    found = []
    default = era.gpu_memory_utilization if isinstance(era, VllmEra) else 1.0
    used = flags.gpu_memory_utilization or default
    refusal = fit.ledgers[0].refusal
    if refusal is not None and refusal.bound_by == "in_use":
        total = fit.ledgers[0].usable
        share = int((total - case.in_use_bytes) / total * 100) / 100
        if share > 0:
            patch = _flags(gpu_memory_utilization=share)
            found.append(Proposal(patch, "less memory for this server: a smaller cache"))
    elif used < 0.95 and flags.kv_cache_memory_bytes is None:
        found.append(
            Proposal(
                _flags(gpu_memory_utilization=0.95),
                "less room for other programs and for CUDA graphs on the device",
            )
        )
    sequences = case.workload.concurrent_sequences
    if flags.max_num_seqs is None or flags.max_num_seqs > max(sequences, 16):
        batch: dict[str, int] = {"max_num_seqs": max(sequences, 16)}
        if isinstance(era, VllmEra) and era.batch_tiers[-1].max_num_batched_tokens is not None:
            batch["max_num_batched_tokens"] = 2048
        found.append(
            Proposal(_flags(**batch), "smaller batches: slower prefill, and further requests wait")
        )
    if flags.kv_cache_memory_bytes is not None:
        patch = _flags(kv_cache_memory_bytes=None)
        found.append(Proposal(patch, "the cache takes what gpu_memory_utilization leaves it"))
    if flags.max_model_len is not None and flags.max_model_len > case.workload.context_tokens:
        patch = _flags(max_model_len=case.workload.context_tokens)
        found.append(Proposal(patch, "longer requests are refused"))
    if not flags.enforce_eager:
        found.append(Proposal(_flags(enforce_eager=True), "slower decoding without CUDA graphs"))
    return found


def _sglang_settings(flags: SglangFlags) -> list[Proposal]:
    found = []
    if flags.chunked_prefill_size is None or flags.chunked_prefill_size > 2048:
        patch = _flags(chunked_prefill_size=2048)
        found.append(Proposal(patch, "prompts are prefilled in smaller pieces"))
    if flags.mem_fraction_static is None or flags.mem_fraction_static < 0.92:
        cost = "less room for activations and CUDA graphs: it may die under load"
        found.append(Proposal(_flags(mem_fraction_static=0.92), cost))
    if flags.max_total_tokens is not None:
        found.append(Proposal(_flags(max_total_tokens=None), "the pool takes all that is left"))
    return found


def _tensorrt_llm_settings(flags: TensorRtLlmFlags) -> list[Proposal]:
    found = []
    if flags.max_num_tokens is None or flags.max_num_tokens > 2048:
        found.append(Proposal(_flags(max_num_tokens=2048), "smaller batches: slower prefill"))
    if flags.free_gpu_memory_fraction is None or flags.free_gpu_memory_fraction < 0.95:
        cost = "less room for what the profile run did not see"
        found.append(Proposal(_flags(free_gpu_memory_fraction=0.95), cost))
    if flags.max_tokens is not None:
        found.append(Proposal(_flags(max_tokens=None), "the cache takes all that is left"))
    return found


def _llama_cpp_settings(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    flags = case.flags
    assert isinstance(flags, LlamaCppFlags)
    found = []
    automatic = isinstance(case.era, LlamaCppEra) and case.era.flash_attention
    if flags.flash_attn is False or (flags.flash_attn is None and not automatic):
        found.append(Proposal(_flags(flash_attn=True), "none where the device supports it"))
    layers = fit.capacity.layers_on_accelerator or 0
    for kept in dict.fromkeys((layers, layers - 1, layers - 2, layers - 4)):
        if 0 < kept < case.model.layer_count + 1:
            found.append(
                Proposal(
                    _flags(n_gpu_layers=kept),
                    f"{case.model.layer_count + 1 - kept} layers run from system memory, many "
                    "times slower",
                    "layers",
                )
            )
    return found


def _less_work(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    found = []
    workload = case.workload
    for amount in (fit.capacity.longest_context.low, fit.capacity.longest_context.expected):
        tokens = amount // 256 * 256 if amount >= 512 else amount
        if 0 < tokens < workload.context_tokens:
            patch = {"workload": {"context_tokens": tokens}}
            found.append(Proposal(patch, "shorter context", "context"))
    for amount in (
        fit.capacity.sequences_at_context.low,
        fit.capacity.sequences_at_context.expected,
    ):
        if 0 < amount < workload.concurrent_sequences:
            found.append(
                Proposal(
                    {"workload": {"concurrent_sequences": amount}},
                    "fewer sequences at once; further requests wait",
                    "sequences",
                )
            )
    return found


_TENSOR_PARALLEL = frozenset({"vllm", "sglang", "tensorrt-llm", "tgi"})
_SMALLER_CACHE = {
    "vllm": "fp8",
    "sglang": "fp8",
    "tensorrt-llm": "fp8",
    "tgi": "fp8",
    "llama.cpp": "q8_0",
}
_SMALLER_WEIGHTS = {
    "vllm": ("fp8", "awq"),
    "sglang": ("fp8", "awq"),
    "tensorrt-llm": ("fp8", "awq"),
    "tgi": ("fp8", "awq"),
    "transformers": ("bnb-nf4",),
    "llama.cpp": ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"),
    "ollama": ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"),
    "mlx-lm": ("mlx-8bit", "mlx-6bit", "mlx-4bit", "mlx-3bit"),
    "exllama": ("exl2-6.0bpw", "exl2-5.0bpw", "exl2-4.0bpw", "exl2-3.0bpw"),
}
_SMALLER_BITS = {
    "fp8": 8.0,
    "awq": 4.16,
    "bnb-nf4": 4.5,
    "q8_0": 8.5,
    "q6_k": 6.5625,
    "q5_k_m": 5.7,
    "q4_k_m": 4.89,
    "q3_k_m": 4.0,
    "q2_k": 3.16,
    "mlx-8bit": 8.5,
    "mlx-6bit": 6.5,
    "mlx-4bit": 4.5,
    "mlx-3bit": 3.5,
    "exl2-6.0bpw": 6.0,
    "exl2-5.0bpw": 5.0,
    "exl2-4.0bpw": 4.0,
    "exl2-3.0bpw": 3.0,
}


def _formats(case: InferenceCase) -> list[Proposal]:
    held = case.weights.encoding.bits_per_weight
    return [
        Proposal(
            {"formats": {"weights": format_id}},
            f"{format_id} weights: another checkpoint, some loss of accuracy",
            "weights",
        )
        for format_id in _SMALLER_WEIGHTS.get(case.runtime.accounting or "", ())
        if _SMALLER_BITS[format_id] < held * 0.95
    ]


def _more_accelerators(case: InferenceCase) -> list[Proposal]:
    found = []
    for factor in (2, 4, 8):
        count = case.count * factor
        cost = f"{count} accelerators instead of {case.count}"
        if case.runtime.accounting not in _TENSOR_PARALLEL:
            found.append(Proposal({"hardware": {"count": count}}, cost, "accelerators"))
            continue
        tensor = case.parallel.tensor * factor
        if tensor > 16 or not heads_divide(case.model, tensor):
            continue
        found.append(
            Proposal(
                {"hardware": {"count": count}, "parallel": {"tensor": tensor}}, cost, "accelerators"
            )
        )
    return found
