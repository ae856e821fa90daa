"""What does a PyTorch server load on a rank of each pipeline stage, in every recipe of a format?

``weights by module + what the allocator keeps beyond them + a rotary table``. Where publishers of a
format leave different modules unquantized, the amount spans their recipes.
"""

from collections.abc import Callable

from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import Estimate
from tonnage.engine.memory.allocator import stage_left_over
from tonnage.engine.memory.weights import stage_weights
from tonnage.engine.precision import WeightEncoding


def loaded_of_stages(
    case: InferenceCase, encoding: WeightEncoding, tensor: int, expert_ranks: int
) -> list[int]:
    """Bytes on one rank of each stage in one recipe."""
    split = (case.model, encoding, tensor, case.parallel.pipeline, expert_ranks)
    rotary = 2 * case.model.longest_context_tokens * case.model.rotary_width
    return [
        amount + more + rotary
        for amount, more in zip(stage_weights(*split), stage_left_over(*split), strict=True)
    ]


def over_recipes(
    case: InferenceCase, load: Callable[[WeightEncoding], list[Estimate]]
) -> list[Estimate]:
    """The usual recipe's amounts, as far as the other recipe's reach."""
    usual, other = case.weights.encoding.recipes(latent=case.model.latent_up_parameters > 0)
    amounts = load(usual)
    if other == usual:
        return amounts
    return [
        Estimate(min(one.low, two.low), one.expected, max(one.high, two.high))
        for one, two in zip(amounts, load(other), strict=True)
    ]


def loaded(case: InferenceCase, tensor: int, expert_ranks: int) -> list[Estimate]:
    """What one rank of each stage loads."""
    return over_recipes(
        case,
        lambda encoding: [
            Estimate.exact(amount)
            for amount in loaded_of_stages(case, encoding, tensor, expert_ranks)
        ],
    )
