"""What the accountings have in common: usable memory, checks of the layout, intervals."""

from tonnage.engine.answer import Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import Estimate
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.memory.usable import usable_memory
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import GIB


def gib(amount: float) -> str:
    return f"{amount / GIB:.2f} GiB"


def scaled(amount: int, ratios: tuple[float, float, float]) -> Estimate:
    low, expected, high = ratios
    return Estimate(round(amount * low), round(amount * expected), round(amount * high))


def usable(accelerator: Accelerator) -> UsableMemory:
    return accelerator.usable_memory or usable_memory(accelerator)


def device_margin(memory: UsableMemory) -> Estimate:
    """How much less than expected the device may turn out to have."""
    return Estimate(0, 0, memory.expected_bytes - memory.low_bytes)


def check_context(case: InferenceCase) -> None:
    longest = case.model.longest_context_tokens
    if case.workload.context_tokens > longest:
        raise Contradiction(
            f"{case.workload.context_tokens} tokens are more than the model's longest context "
            f"of {longest}",
            pointer="/workload/context_tokens",
            remedy=f"at most {longest}",
        )


def check_length(case: InferenceCase, flag: str, most_tokens: int | None) -> None:
    """Raise Contradiction where sequences are longer than a server's flag admits."""
    tokens = case.workload.context_tokens
    if most_tokens is not None and tokens > most_tokens:
        raise Contradiction(
            f"sequences of {tokens} tokens are longer than {flag} {most_tokens}",
            pointer="/workload/context_tokens",
            remedy=f"at most {most_tokens}, or a larger {flag}",
        )


def check_layout(case: InferenceCase) -> None:
    """Raise Contradiction where ranks, heads, experts or layers do not divide."""
    parallel, model = case.parallel, case.model
    if parallel.ranks == parallel.expert == 1:
        return
    if parallel.ranks > case.count:
        raise Contradiction(
            f"tensor x pipeline x data = {parallel.ranks} ranks need as many accelerators; "
            f"the request has {case.count}",
            pointer="/parallel",
            remedy=f"raise hardware.count to {parallel.ranks} or lower a parallel size",
        )
    if not heads_divide(model, parallel.tensor):
        legal = [n for n in range(1, min(case.count, 1024) + 1) if heads_divide(model, n)]
        held = f" and {_listed(model.key_value_heads)} key/value" if model.key_value_heads else ""
        raise Contradiction(
            f"{_listed(model.attention_heads)} attention{held} heads can not be laid out over "
            f"tensor parallel size {parallel.tensor}",
            pointer="/parallel/tensor",
            remedy=f"one of {', '.join(map(str, legal))}",
        )
    if parallel.pipeline > model.layer_count:
        raise Contradiction(
            f"{model.layer_count} layers can not fill {parallel.pipeline} pipeline stages",
            pointer="/parallel/pipeline",
            remedy=f"at most {model.layer_count}",
        )
    if parallel.expert > 1:
        _check_experts(case)


def idle_accelerators(case: InferenceCase) -> tuple[Note, ...]:
    """A warning where the layout leaves some unused."""
    idle = case.count - case.parallel.ranks
    if idle <= 0:
        return ()
    return (
        Note(
            code="accelerators_stay_idle",
            text=f"{idle} of {case.count} accelerators are not used: tensor x pipeline x data "
            f"is {case.parallel.ranks}.",
            pointer="/parallel",
        ),
    )


def heads_divide(model: ModelArchitecture, tensor: int) -> bool:
    """Query heads are divided; key/value heads are divided, or copied a whole number of times."""
    return all(heads % tensor == 0 for heads in model.attention_heads) and all(
        heads % tensor == 0 or tensor % heads == 0 for heads in model.key_value_heads
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return " and ".join(map(str, numbers))


def check_unsplit(case: InferenceCase, why: str) -> None:
    """Raise Contradiction for parallel sizes under a runtime that has none."""
    for name in ("tensor", "pipeline", "data", "expert"):
        if getattr(case.parallel, name) != 1:
            raise Contradiction(
                f"{why} a {name} parallel size", pointer=f"/parallel/{name}", remedy="1"
            )


def check_devices(case: InferenceCase, most: int, why: str) -> None:
    if case.count > most:
        raise Contradiction(
            f"{case.count} accelerators: {why}",
            pointer="/hardware/count",
            remedy=f"at most {most}",
        )


def _check_experts(case: InferenceCase) -> None:
    parallel, experts = case.parallel, case.model.experts
    ranks = parallel.tensor * parallel.data
    if not experts:
        raise Contradiction(
            "the model has no experts to place in parallel",
            pointer="/parallel/expert",
            remedy="1",
        )
    if parallel.expert != ranks:
        raise Contradiction(
            f"experts are split over all tensor x data = {ranks} ranks or not at all",
            pointer="/parallel/expert",
            remedy=f"1 or {ranks}",
        )
    if experts % parallel.expert:
        raise Contradiction(
            f"{experts} experts can not be divided over {parallel.expert} ranks",
            pointer="/parallel/expert",
            remedy=f"a size that divides {experts}",
        )


def accelerators_of_stage(case: InferenceCase, stage: int) -> tuple[int, ...]:
    """Indices of the accelerators that hold a stage: tensor ranks first, then stages, then data."""
    tensor, pipeline = case.parallel.tensor, case.parallel.pipeline
    return tuple(
        (replica * pipeline + stage) * tensor + rank
        for replica in range(case.parallel.data)
        for rank in range(tensor)
    )
