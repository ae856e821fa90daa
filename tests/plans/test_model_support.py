"""Is the runtime known to run what the model is made of?"""

from typing import Any

import pytest

from tests.plans.conftest import Ask
from tests.plans.test_worked_examples import question


@pytest.mark.parametrize(
    ("model", "runtime", "says"),
    [
        ("Llama-3.1-8B", "exllamav2", "yes"),
        ("openai/whisper-large-v3", "mlx-lm", "unknown"),
        ("openai/whisper-large-v3", "vllm", "yes"),
        ("BAAI/bge-m3", "exllamav3", "unknown"),
        ("deepseek-ai/DeepSeek-V3", "sglang", "yes"),
    ],
)
def test_parts_that_the_catalog_is_silent_on_are_to_be_verified(
    ask: Ask, model: str, runtime: str, says: str
) -> None:
    accelerator = "apple-m4-16gb" if runtime == "mlx-lm" else "H100"
    request: dict[str, Any] = question(model, accelerator, 448, runtime=runtime, version=None)
    support = ask(request).support
    assert support.model_on_runtime == says
    assert ("verify_model" in {note.code for note in support.notes}) == (says == "unknown")


def test_nothing_is_proposed_where_the_runtime_does_not_run(ask: Ask) -> None:
    request = question(
        "Llama-3.1-8B",
        "amd-mi300x",
        131_072,
        sequences=64,
        runtime="tensorrt-llm",
        version=None,
    )
    answer = ask(request)
    assert answer.support.runtime_on_device == "no"
    assert answer.remedies == ()
