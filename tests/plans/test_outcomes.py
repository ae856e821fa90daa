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


def test_the_longest_length_that_is_printed_is_that_of_one_sequence(ask: Ask) -> None:
    """vLLM estimates it for one request, whatever is asked for at once or set as the limit."""
    alone = ask(question("Llama-3.1-8B", "L4", 131_072)).outcome.message
    beside = ask(question("Llama-3.1-8B", "L4", 131_072, sequences=4)).outcome.message
    limited = question("Llama-3.1-8B", "L4", 131_072, max_model_len=131_072)
    assert alone is not None
    assert "maximum model length is 0" not in alone
    assert alone == beside == ask(limited).outcome.message


@pytest.mark.parametrize(
    ("mebibytes", "verdict", "code", "summary"),
    [
        (600, "does_not_fit", "cache_too_small", "does not start: kv_cache_memory_bytes sets 0.59"),
        (1500, "does_not_fit", "starts_and_queues", "does not fit: kv_cache_memory_bytes sets"),
        (2100, "fits", "starts", "fits"),
        (40_960, "does_not_fit", "cache_does_not_fit", "sets 40.00 GiB and"),
    ],
)
def test_a_cache_size_that_was_set_decides_what_happens(
    ask: Ask, mebibytes: int, verdict: str, code: str, summary: str
) -> None:
    """It is allocated whole: too small for a start, for the load, or more than is there."""
    size = mebibytes * 2**20
    answer = ask(question("Llama-3.1-8B", "L4", 8192, sequences=2, kv_cache_memory_bytes=size))
    assert (answer.verdict, answer.outcome.code) == (verdict, code)
    assert summary in answer.summary
    held = answer.capacity.sequences_at_context.expected
    assert (held >= 2) == (verdict == "fits")


def test_a_cache_size_that_may_not_be_there_is_tight(ask: Ask) -> None:
    free = 22 * 2**30 - 16 * 2**30
    sizes = range(free - 2**30, free + 2**30, 2**27)
    answers = [
        ask(question("Llama-3.1-8B", "L4", 8192, version="0.33.0", kv_cache_memory_bytes=size))
        for size in sizes
    ]
    assert {answer.verdict for answer in answers} == {"fits", "tight", "does_not_fit"}
    for answer in answers:
        assert (answer.capacity.sequences_at_context.low > 0) == (answer.verdict == "fits")


def test_what_caps_a_cache_is_offered_to_be_left_out(ask: Ask) -> None:
    request = question(
        "Llama-3.1-8B", "H100", 8192, runtime="sglang", version="0.5.9", max_total_tokens=4096
    )
    patches = [remedy.patch for remedy in ask(request).remedies]
    assert {"runtime": {"flags": {"max_total_tokens": None}}} in patches


def test_tgi_names_the_prefill_that_it_tries(ask: Ask) -> None:
    request = question("Llama-3.1-8B", "RTX 4090", 8192, runtime="tgi", version="3.3.6")
    request["hardware"]["memory_in_use_bytes"] = 7 * 2**30
    outcome = ask(request).outcome
    assert outcome.code == "no_room_for_cache"
    assert "handle 4096 prefill tokens" in (outcome.message or "")
