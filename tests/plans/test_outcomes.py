"""What would the runtime do, and what would it print?"""

from typing import Any

import pytest

from tests.plans.conftest import Ask
from tests.plans.test_worked_examples import question

CASES: list[Any] = [
    pytest.param(
        question("Llama-3.1-8B", "L4", 131_072),
        "cache_too_small",
        "(16.00 GiB KV cache is needed, which is larger than the available KV cache memory",
        id="vllm-v1",
    ),
    pytest.param(
        question("Llama-3.1-8B", "L4", 131_072, version="0.6.4"),
        "cache_too_small",
        "The model's max seq len (131072) is larger than the maximum number of tokens",
        id="vllm-v0",
    ),
    pytest.param(
        question("Llama-3.1-70B-Instruct", "H100", 4096),
        "weights_do_not_fit",
        "CUDA out of memory",
        id="loading",
    ),
    pytest.param(
        question("nvidia/NVIDIA-Nemotron-Nano-9B-v2", "L40S", 4096, version="0.7.3"),
        "states_do_not_fit",
        "CUDA out of memory",
        id="states of 256 sequences, https://github.com/vllm-project/vllm/issues/23230",
    ),
    pytest.param(
        question("Llama-3.1-8B", "H100", 8192, sequences=2000),
        "starts_and_queues",
        None,
        id="more than fits at once",
    ),
    pytest.param(
        question("Llama-3.1-8B", "H100", 8192, runtime="sglang", version="0.5.9"),
        "starts",
        None,
        id="sglang",
    ),
    pytest.param(
        question(
            "Llama-3.1-8B",
            "RTX 4090",
            8192,
            runtime="sglang",
            version="0.5.9",
            mem_fraction_static=0.5,
        ),
        "no_room_for_cache",
        "Please try to increase --mem-fraction-static",
        id="sglang-fraction",
    ),
]


@pytest.mark.parametrize(("request_", "code", "said"), CASES)
def test_the_outcome_is_said_as_the_runtime_says_it(
    ask: Ask, request_: dict[str, Any], code: str, said: str | None
) -> None:
    outcome = ask(request_).outcome
    assert outcome.code == code
    assert outcome.text
    if said is None:
        assert outcome.message is None
    else:
        assert said in (outcome.message or "")
        assert "{" not in (outcome.message or "")


def test_sglang_starts_where_a_whole_context_has_no_room(ask: Ask) -> None:
    """Its pool of tokens need not hold one request of the model's full length."""
    request = question("Llama-3.1-8B", "L4", 131_072, runtime="sglang", version="0.5.9")
    assert ask(request).outcome.code == "starts_and_queues"
