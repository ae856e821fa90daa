"""What could be changed to make it fit? Proposals; whoever asks evaluates each.

A proposal is a JSON merge patch (RFC 7396) on the request, in its words, with what it costs. Which
are worth trying depends on the component that binds.
"""

from .answer import InferenceFit
from .case import InferenceCase
from .memory.runtimes.shared import heads_divide
from .remedy_settings import Patch, Proposal, cache_formats, setting_proposals


def proposals(case: InferenceCase, fit: InferenceFit) -> list[Proposal]:
    """Cheapest first: settings, then less work, then smaller weights, then more accelerators."""
    single = [*setting_proposals(case, fit), *_less_work(case, fit), *_formats(case)]
    return [*single, *_more_accelerators(case)]


def pairs(case: InferenceCase) -> list[Proposal]:
    """Two changes at once, for when no single one is enough."""
    formats, devices = _formats(case), _more_accelerators(case)
    caches = [Proposal(p, c) for p, c in cache_formats(case)]
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
