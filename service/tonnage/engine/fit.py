"""Will it fit? The one entry to the inference accounting of every runtime."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from .answer import InferenceFit, Ledger, Verdict
from .case import InferenceCase
from .errors import Contradiction, NotModelled
from .flags import VllmFlags
from .memory.capacity import Pool
from .memory.runtimes import (
    exllama,
    llama_cpp,
    mlx,
    ollama,
    sglang,
    tensorrt_llm,
    tgi,
    transformers,
    vllm,
)
from .memory.runtimes.verdict import worst
from .outcome import outcome_of
from .runtime import Accounting
from .workload import InferenceWorkload


class _Runtime(NamedTuple):
    estimate: Callable[[InferenceCase], InferenceFit]
    rank_ledgers: Callable[[InferenceCase], list[Ledger]]
    pools: Callable[[InferenceCase], list[Pool]] | None = None
    """Of runtimes that keep one pool of pages for all sequences."""


_ACCOUNTING: dict[Accounting, _Runtime] = {
    "vllm": _Runtime(vllm.estimate, vllm.rank_ledgers, vllm.pools),
    "sglang": _Runtime(sglang.estimate, sglang.rank_ledgers, sglang.pools),
    "tensorrt-llm": _Runtime(tensorrt_llm.estimate, tensorrt_llm.rank_ledgers, tensorrt_llm.pools),
    "tgi": _Runtime(tgi.estimate, tgi.rank_ledgers, tgi.pools),
    "llama.cpp": _Runtime(llama_cpp.estimate, llama_cpp.rank_ledgers),
    "transformers": _Runtime(transformers.estimate, transformers.rank_ledgers),
    "ollama": _Runtime(ollama.estimate, ollama.rank_ledgers),
    "mlx-lm": _Runtime(mlx.estimate, mlx.rank_ledgers),
    "exllama": _Runtime(exllama.estimate, exllama.rank_ledgers),
}


def fit_inference(case: InferenceCase) -> InferenceFit:
    """The ledger of every distinct rank, the verdict over them, and the capacity that is left.

    Raises Contradiction for layouts and lengths that exclude each other, NotModelled for a runtime
    without accounting.
    """
    _check_prefix(case)
    fit = _accounting(case).estimate(case)
    outcome = outcome_of(case, fit, lambda: _longest_alone(case))
    return msgspec.structs.replace(fit, outcome=outcome)


def _longest_alone(case: InferenceCase) -> int:
    """The longest sequence that a server holds, whatever length it was told to start with."""
    flags, tokens = case.flags, case.workload.context_tokens
    if isinstance(flags, VllmFlags) and flags.max_model_len is not None:
        tokens = flags.max_model_len
        flags = msgspec.structs.replace(flags, max_model_len=None)
    workload = InferenceWorkload(context_tokens=tokens)
    alone = msgspec.structs.replace(case, flags=flags, workload=workload)
    return _accounting(case).estimate(alone).capacity.longest_context.expected


def inference_verdict(case: InferenceCase) -> Verdict:
    """The verdict alone, many times cheaper than the whole answer; raises the same."""
    _check_prefix(case)
    return worst(_accounting(case).rank_ledgers(case))


def cache_pools(case: InferenceCase) -> list[Pool]:
    """The cache of a rank of each pipeline stage, and the memory that the runtime finds for it.

    Empty for runtimes that allocate each sequence's cache by itself.
    """
    runtime = _accounting(case)
    return runtime.pools(case) if runtime.pools else []


def _check_prefix(case: InferenceCase) -> None:
    """Raise Contradiction for a common prefix that is longer than a sequence, or kept by none."""
    prefix, context = case.workload.shared_prefix_tokens, case.workload.context_tokens
    if not prefix:
        return
    if prefix > context:
        raise Contradiction(
            f"{prefix} common tokens are more than the {context} of a sequence",
            pointer="/workload/shared_prefix_tokens",
            remedy=f"at most {context}",
        )
    keeps = _accounting(case).pools is not None
    if isinstance(case.flags, VllmFlags):
        keeps = case.flags.enable_prefix_caching
    if not keeps:
        raise Contradiction(
            f"{case.runtime.name} so set keeps each sequence's cache by itself",
            pointer="/workload/shared_prefix_tokens",
            remedy="0, or a server that caches prefixes",
        )


def _accounting(case: InferenceCase) -> _Runtime:
    accounting = case.runtime.accounting
    if accounting is None:
        raise NotModelled(
            f"the memory of {case.runtime.name} is not modelled",
            pointer="/runtime/name",
            remedy=", ".join(_ACCOUNTING),
        )
    return _ACCOUNTING[accounting]
