"""How much processor time does one answer take, without the web around it?"""

import statistics
import time
from typing import Any, NamedTuple

import msgspec

from tonnage.catalog.seed import seed_release
from tonnage.plans.fit import answer_fit
from tonnage.plans.requests import FitInferenceRequest

ROUNDS = 7
ANSWERS = 300


class Goal(NamedTuple):
    model: str
    accelerators: int
    microseconds: int


GOALS = {
    "a dense model": Goal("meta-llama/Llama-3.1-8B-Instruct", 1, 250),
    "a hybrid mixture of experts": Goal("Qwen/Qwen3.6-35B-A3B", 2, 500),
}


def microseconds(goal: Goal) -> float:
    """The median round's time of an answer; every question of a round is another one."""
    release = seed_release()
    questions = [_question(goal, 1024 + 13 * n) for n in range(ANSWERS)]
    answer_fit(questions[0], release)
    taken = []
    for _ in range(ROUNDS):
        started = time.process_time()
        for question in questions:
            answer_fit(question, release)
        taken.append((time.process_time() - started) / ANSWERS * 1e6)
    return statistics.median(taken)


def _question(goal: Goal, context: int) -> FitInferenceRequest:
    plain: dict[str, Any] = {
        "model": goal.model,
        "hardware": {"accelerator": "nvidia-h100-80gb-sxm", "count": goal.accelerators},
        "runtime": {"name": "vllm"},
        "workload": {"context_tokens": context, "concurrent_sequences": 4},
    }
    return msgspec.convert(plain, FitInferenceRequest)


def report() -> None:
    for name, goal in GOALS.items():
        found = microseconds(goal)
        reached = "reached" if found < goal.microseconds else "not reached here"
        print(f"{found:.0f} µs of CPU for {name}: goal under {goal.microseconds} µs {reached}")
