"""POST /v1/fit/inference."""

from typing import Any

from litestar.types import ASGIApp

from tonnage.plans.answers import FitInferenceAnswer
from tonnage.plans.fit import answer_fit
from tonnage.plans.requests import FitInferenceRequest

from .bodies import read_json, read_query
from .call import Call
from .context import context_of
from .operations import Example, Operation, answered, handle
from .queries import AtRelease

EXAMPLE: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B-Instruct",
    "hardware": {"accelerator": "nvidia-l4", "count": 1},
    "runtime": {
        "name": "vllm",
        "version": "0.11.0",
        "flags": {"gpu_memory_utilization": 0.9},
    },
    "formats": {"weights": "bf16", "kv_cache": "auto"},
    "parallel": {"tensor": 1, "pipeline": 1, "data": 1, "expert": 1},
    "workload": {"context_tokens": 8192, "concurrent_sequences": 2},
}
LAPTOP: dict[str, Any] = {
    "model": "meta-llama/Llama-2-13b-hf",
    "hardware": {"accelerator": "nvidia-rtx-4060-laptop"},
    "runtime": {"name": "llama.cpp"},
    "formats": {"weights": "q4_k_m"},
    "workload": {"context_tokens": 4096},
}

FIT_INFERENCE = Operation(
    id="fitInference",
    method="POST",
    path="/v1/fit/inference",
    tag="fit",
    summary="Does this model fit these accelerators, under this runtime and workload?",
    description=(
        "Answers from the catalog in memory, with a ledger for each accelerator whose terms add "
        "up, what the layout can hold, and, where it does not fit, changes that make it fit. A "
        "workload that does not fit is an answer (200), not an error."
    ),
    query=AtRelease,
    body=FitInferenceRequest,
    examples=(
        Example("server", "Two sequences on one L4 under vLLM", EXAMPLE),
        Example("laptop", "A 13B model on a laptop under llama.cpp", LAPTOP),
    ),
    answer=FitInferenceAnswer,
    problems=(400, 404, 413, 415, 422, 503),
)


@handle(FIT_INFERENCE)
async def fit_inference(request: Call) -> ASGIApp:
    asked = await read_json(request, FitInferenceRequest)
    at = read_query(request, AtRelease).release
    release = await context_of(request).shelf.at(at)
    return answered(answer_fit(asked, release))


HANDLERS = [fit_inference]
OPERATIONS = [FIT_INFERENCE]
