"""A prefix that all sequences have in common is kept once by servers that cache prefixes."""

import pytest

from tests.plans.conftest import Ask
from tests.plans.test_worked_examples import question
from tonnage.engine.errors import Contradiction


def prefixed(tokens: int, **changes: object) -> dict[str, object]:
    request = question("Llama-3.1-8B", "L4", 8192, sequences=8, **changes)  # type: ignore[arg-type]
    request["workload"]["shared_prefix_tokens"] = tokens
    return request


def test_a_system_prompt_of_6k_makes_room_for_more_sequences(ask: Ask) -> None:
    alone, shared = ask(prefixed(0)), ask(prefixed(6144))
    assert alone.verdict == "does_not_fit"
    assert shared.verdict == "fits"
    held = shared.capacity.sequences_at_context.expected
    assert held >= 3 * alone.capacity.sequences_at_context.expected


@pytest.mark.parametrize(
    "request_",
    [
        prefixed(9000),
        prefixed(100, enable_prefix_caching=False),
        prefixed(100, runtime="llama.cpp", version=None, weights="q4_k_m"),
    ],
    ids=["longer than a sequence", "caching off", "no such cache"],
)
def test_a_prefix_that_can_not_be_shared_is_refused(ask: Ask, request_: dict[str, object]) -> None:
    with pytest.raises(Contradiction) as refused:
        ask(request_)
    assert refused.value.pointer == "/workload/shared_prefix_tokens"
    assert refused.value.remedy
