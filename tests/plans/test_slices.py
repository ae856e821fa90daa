"""A slice of an accelerator is an accelerator with the slice's memory."""

import pytest

from tests.plans.conftest import Ask
from tests.plans.test_worked_examples import question
from tonnage.engine.errors import Contradiction
from tonnage.engine.values import GIB


def sliced(profile: str, model: str = "Llama-3.2-1B") -> dict[str, object]:
    request = question(model, "A100 80GB", 2048)
    request["hardware"]["slice"] = profile
    return request


def test_a_slice_has_its_own_memory(ask: Ask) -> None:
    answer = ask(sliced("1g.10gb"))
    assert 9 * GIB < answer.ledger[0].usable < 10 * GIB
    assert "1g.10gb" in answer.summary
    assert "slice_of_accelerator" in {note.code for note in answer.assumptions}


def test_what_fits_the_whole_may_not_fit_a_slice(ask: Ask) -> None:
    assert ask(question("Llama-3.1-8B", "A100 80GB", 2048)).verdict == "fits"
    assert ask(sliced("1g.10gb", "Llama-3.1-8B")).verdict == "does_not_fit"


def test_a_profile_that_is_not_known_says_which_are(ask: Ask) -> None:
    with pytest.raises(Contradiction) as refused:
        ask(sliced("9g.99gb"))
    assert refused.value.pointer == "/hardware/slice"
    assert "1g.10gb" in (refused.value.remedy or "")
