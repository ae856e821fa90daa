"""Will it fit? The one entry to the inference accounting of every runtime."""

from collections.abc import Callable
from typing import NamedTuple

from .answer import InferenceFit, Ledger, Verdict
from .case import InferenceCase
from .errors import NotModelled
from .memory.runtimes import exllama, llama_cpp, mlx, ollama, transformers, vllm
from .memory.runtimes.verdict import worst
from .runtime import Accounting


class _Runtime(NamedTuple):
    estimate: Callable[[InferenceCase], InferenceFit]
    rank_ledgers: Callable[[InferenceCase], list[Ledger]]


_ACCOUNTING: dict[Accounting, _Runtime] = {
    "vllm": _Runtime(vllm.estimate, vllm.rank_ledgers),
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
    return _accounting(case).estimate(case)


def inference_verdict(case: InferenceCase) -> Verdict:
    """The verdict alone, many times cheaper than the whole answer; raises the same."""
    return worst(_accounting(case).rank_ledgers(case))


def _accounting(case: InferenceCase) -> _Runtime:
    accounting = case.runtime.accounting
    if accounting is None:
        raise NotModelled(
            f"the memory of {case.runtime.name} is not modelled",
            pointer="/runtime/name",
            remedy=", ".join(_ACCOUNTING),
        )
    return _ACCOUNTING[accounting]
