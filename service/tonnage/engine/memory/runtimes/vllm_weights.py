"""What does a vLLM rank load before it profiles: weights, repacking, adapters and drafts?

``what every PyTorch server loads + absorbed projections of latent attention + padding of repacked
experts + adapter slots + the draft``, less what is offloaded to system memory.
"""

from functools import lru_cache
from typing import cast

import msgspec

from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.loaded import loaded_of_stages, over_recipes
from tonnage.engine.memory.lora import lora_bytes
from tonnage.engine.memory.prediction import prediction_bytes, prediction_layers
from tonnage.engine.memory.weights import (
    encoder_bytes,
    expert_bytes,
    padded_share,
    stages,
)
from tonnage.engine.precision import WeightEncoding
from tonnage.engine.values import GIB, ceil_div
from tonnage.engine.workload import InferenceWorkload


def expert_ranks(case: InferenceCase) -> int:
    """Over how many ranks experts are split: data-parallel ranks share them, by whole experts or,
    without expert parallelism, by slices (vLLM 0.9-0.33 ``FusedMoEParallelConfig``)."""
    return case.parallel.tensor * case.parallel.data


ANY_WORKLOAD = InferenceWorkload(context_tokens=1)


def weights_of_stages(case: InferenceCase) -> tuple[Estimate, ...]:
    """What one rank of each pipeline stage loads, whatever the workload."""
    return _weights_of_stages(msgspec.structs.replace(case, workload=ANY_WORKLOAD, in_use_bytes=0))


@lru_cache(maxsize=4096)
def _weights_of_stages(case: InferenceCase) -> tuple[Estimate, ...]:
    amounts = _whole(case)
    kept = cast(VllmFlags, case.flags).cpu_offload_gb * GIB
    if not kept or cast(VllmEra, case.era).offloaded_weights == "counted":
        return tuple(amounts)
    return tuple((amount - Estimate.exact(round(kept))).at_least(0) for amount in amounts)


def _whole(case: InferenceCase) -> list[Estimate]:
    """Before anything is offloaded."""
    return over_recipes(case, lambda encoding: _loaded(case, encoding))


def offloaded_bytes(case: InferenceCase) -> int:
    """Weights and cache of all ranks that are kept in system memory."""
    flags = cast(VllmFlags, case.flags)
    tier = round(flags.kv_offloading_size * GIB) * case.parallel.data
    kept = round(flags.cpu_offload_gb * GIB)
    if not kept:
        return tier
    ranks = case.parallel.tensor * case.parallel.data
    return tier + sum(min(kept, amount.expected) * ranks for amount in _whole(case))


def _loaded(case: InferenceCase, encoding: WeightEncoding) -> list[Estimate]:
    parallel, model = case.parallel, case.model
    everywhere = (_absorbed_projections(case) + _adapters(case)) // parallel.pipeline
    amounts = loaded_of_stages(case, encoding, parallel.tensor, expert_ranks(case))
    found = [
        Estimate.exact(amount + everywhere) + _expert_padding(case, encoding, stage)
        for stage, amount in zip(stages(model, parallel.pipeline), amounts, strict=True)
    ]
    if cast(VllmFlags, case.flags).language_model_only:
        towers = encoder_bytes(model, encoding, parallel.tensor)
        found[0] = (found[0] - Estimate.exact(towers)).at_least(0)
    found[-1] = found[-1] + Estimate.exact(_draft(case, encoding))
    return found


def _draft(case: InferenceCase, encoding: WeightEncoding) -> int:
    """Weights of what drafts tokens ahead, on the last stage."""
    drafting = cast(VllmFlags, case.flags).speculative_config
    if drafting is None:
        return 0
    pointer = "/runtime/flags/speculative_config"
    if drafting.method in ("ngram", "mtp"):
        for name in ("draft_weights_bytes", "draft_layers"):
            if getattr(drafting, name):
                raise Contradiction(
                    f"{drafting.method} drafts without another model",
                    pointer=f"{pointer}/{name}",
                    remedy="0, or left out",
                )
    if drafting.method == "ngram":
        return 0
    if drafting.method == "mtp":
        if not prediction_layers(case.model):
            raise Contradiction(
                "the model has no layers of its own that predict further tokens",
                pointer=f"{pointer}/method",
                remedy="draft_model, eagle, medusa, dflash or ngram",
            )
        return prediction_bytes(case.model, encoding, case.parallel.tensor, expert_ranks(case))
    if not drafting.draft_weights_bytes:
        raise Contradiction(
            f"what {drafting.method} drafts with has weights of its own",
            pointer=f"{pointer}/draft_weights_bytes",
            remedy="its bytes on one rank: the size of its checkpoint without tensor parallelism",
        )
    return drafting.draft_weights_bytes


def _adapters(case: InferenceCase) -> int:
    flags = cast(VllmFlags, case.flags)
    if not flags.enable_lora:
        return 0
    return lora_bytes(
        case.model,
        flags.max_loras,
        flags.max_lora_rank,
        case.parallel.tensor,
        fully_sharded=flags.fully_sharded_loras,
    )


def _expert_padding(
    case: InferenceCase, encoding: WeightEncoding, stage: dict[str, int]
) -> Estimate:
    """What repacking adds to the experts: gpt-oss-120b loads 64.38 or 65.97 GiB, not 60.8.

    Experts that are placed whole (expert parallel) keep their width.
    """
    paddings = [
        rule
        for rule in cast(VllmEra, case.era).expert_padding
        if rule.format == case.weights.id and case.model.experts
    ]
    if not paddings:
        return ZERO
    ranks = expert_ranks(case)
    width_ranks = 1 if case.parallel.expert > 1 else ranks
    rule = paddings[0]
    experts = expert_bytes(case.model, encoding, ranks, tuple(stage.items()))
    hidden = padded_share(case.model, width_ranks, rule.hidden_multiple, 1)
    both = padded_share(case.model, width_ranks, rule.hidden_multiple, rule.intermediate_multiple)
    low, high = int(experts * (hidden - 1)), int(experts * (both - 1))
    return Estimate(low, high, high)


def _absorbed_projections(case: InferenceCase) -> int:
    """16-bit copies of the latent up-projections that decoding multiplies into its queries."""
    if not cast(VllmEra, case.era).latent_cache:
        return 0
    return 2 * ceil_div(case.model.latent_up_parameters, case.parallel.tensor)
