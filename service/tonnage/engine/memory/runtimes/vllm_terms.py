"""Which terms does a vLLM rank hold beside its cache, and under which batch limits?

``utilization x total`` is the budget; ``total`` is what CUDA reports, not the marketed size. Batch
limits decide the activation peak, and their defaults depend on the version and the device. Read
from vLLM 0.6.6 to 0.33 ``gpu_worker.py``, ``arg_utils.py`` and ``config/cache.py``.
"""

from typing import NamedTuple, cast

from tonnage.engine import calibration
from tonnage.engine.case import InferenceCase
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.activations import (
    FLASHINFER_BYTES_PER_LOGIT,
    forward_bytes,
    sampler_bytes,
)
from tonnage.engine.memory.pages import PagedCache, paged_cache
from tonnage.engine.memory.runtimes.shared import scaled, usable
from tonnage.engine.memory.weights import expert_bytes, padded_share, stage_weights, stages
from tonnage.engine.runtime import BatchTier, VllmEra
from tonnage.engine.values import GIB, ceil_div

LONG_CONTEXT_TOKENS = 32768
"""Beyond this, engine V0 cut prefill into chunks by itself (``arg_utils.py``)."""


class Limits(NamedTuple):
    """The batch limits that are in force."""

    model_tokens: int
    batched_tokens: int
    sequences: int


class Terms(NamedTuple):
    """What a rank of one stage holds beside its cache."""

    activations: Estimate
    overhead: Estimate
    graphs: Estimate
    reserve: Estimate


def batch_limits(case: InferenceCase, era: VllmEra, flags: VllmFlags) -> Limits:
    """The limits that the flags set, the version's defaults for this device where not."""
    context, longest = case.workload.context_tokens, case.model.longest_context_tokens
    model_tokens = flags.max_model_len or context
    if model_tokens > longest:
        pointer = (
            "/runtime/flags/max_model_len" if flags.max_model_len else "/workload/context_tokens"
        )
        raise Contradiction(
            f"{model_tokens} tokens are more than the model's longest context of {longest}",
            pointer=pointer,
            remedy=f"at most {longest}",
        )
    if context > model_tokens:
        raise Contradiction(
            f"sequences of {context} tokens are longer than max_model_len {model_tokens}",
            pointer="/workload/context_tokens",
            remedy=f"at most {model_tokens}, or a larger max_model_len",
        )
    tier = _tier(era.batch_tiers, case)
    batched = flags.max_num_batched_tokens or tier.max_num_batched_tokens
    whole = tier.max_num_batched_tokens is None and model_tokens <= LONG_CONTEXT_TOKENS
    if whole and batched is not None and batched < model_tokens:
        raise Contradiction(
            f"vLLM {case.version} prefills {model_tokens} tokens at once; "
            f"max_num_batched_tokens {batched} is less",
            pointer="/runtime/flags/max_num_batched_tokens",
            remedy=f"at least {model_tokens}",
        )
    if batched is None and model_tokens > LONG_CONTEXT_TOKENS:
        batched = era.long_context_batched_tokens
    sequences = flags.max_num_seqs or tier.max_num_seqs
    return Limits(model_tokens, batched or max(model_tokens, 2048), sequences)


def _tier(tiers: tuple[BatchTier, ...], case: InferenceCase) -> BatchTier:
    name = case.accelerator.name.lower()
    device_gib = usable(case.accelerator).expected_bytes / GIB
    for tier in tiers:
        skipped = any(part in name for part in tier.except_names)
        if device_gib >= tier.smallest_device_gib and not skipped:
            return tier
    return tiers[-1]


def weights_of_stages(case: InferenceCase) -> list[Estimate]:
    parallel = case.parallel
    expert_ranks = parallel.expert if parallel.expert > 1 else parallel.tensor
    rotary = 2 * case.model.longest_context_tokens * case.model.rotary_width
    absorbed = _absorbed_projections(case)
    amounts = stage_weights(
        case.model, case.weights.encoding, parallel.tensor, parallel.pipeline, expert_ranks
    )
    return [
        Estimate.exact(amount + rotary + absorbed // parallel.pipeline)
        + _expert_padding(case, expert_ranks, stage)
        for stage, amount in zip(stages(case.model, parallel.pipeline), amounts, strict=True)
    ]


def _expert_padding(case: InferenceCase, expert_ranks: int, stage: dict[str, int]) -> Estimate:
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
    rule, width_ranks = paddings[0], 1 if case.parallel.expert > 1 else expert_ranks
    experts = expert_bytes(case.model, case.weights.encoding, expert_ranks, tuple(stage.items()))
    hidden = padded_share(case.model, width_ranks, rule.hidden_multiple, 1)
    both = padded_share(case.model, width_ranks, rule.hidden_multiple, rule.intermediate_multiple)
    low, high = int(experts * (hidden - 1)), int(experts * (both - 1))
    return Estimate(low, high, high)


def _absorbed_projections(case: InferenceCase) -> int:
    """16-bit copies of the latent up-projections that decoding multiplies into its queries."""
    if not cast(VllmEra, case.era).latent_cache:
        return 0
    return 2 * ceil_div(case.model.latent_up_parameters, case.parallel.tensor)


def cache_of_stage(case: InferenceCase, era: VllmEra, flags: VllmFlags, stage: int) -> PagedCache:
    windowed = era.local_layers == "windowed" and not flags.disable_hybrid_kv_cache_manager
    layers = tuple(stages(case.model, case.parallel.pipeline)[stage].items())
    return paged_cache(
        case.model,
        layers,
        case.parallel.tensor,
        case.key_cache.encoding.bits_per_element,
        case.value_cache.encoding.bits_per_element,
        flags.block_size or era.kv_block_tokens,
        windowed=windowed,
        latent=era.latent_cache,
        state_blocks=era.state_blocks if flags.enable_prefix_caching else 1,
    )


def terms_of_rank(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> Terms:
    device = usable(case.accelerator)
    activations = _activations(case, era, flags, limits)
    overhead = Estimate.exact(
        calibration.VLLM_OVERHEAD_BYTES_MANY_RANKS[1]
        if case.parallel.tensor * case.parallel.pipeline > 1
        else calibration.VLLM_OVERHEAD_BYTES_ONE_RANK[1]
    )
    graphs = ZERO
    if not flags.enforce_eager:
        graphs = Estimate(*calibration.VLLM_GRAPH_BYTES[graph_class(case)])
        if era.cuda_graphs == "subtracted":
            graphs = Estimate.exact(graphs.expected)
    if flags.kv_cache_memory_bytes is not None:
        return Terms(activations, overhead, graphs, ZERO)
    total = device.expected_bytes
    margin = total - int(total * utilization_of(era, flags))
    if era.other_programs == "refused":
        margin = max(margin - case.in_use_bytes, 0)
    if era.cuda_graphs == "in_margin":
        graphs = _outgrowing(graphs, margin)
        margin -= min(margin, graphs.expected)
    reserve = Estimate(
        margin - (device.high_bytes - total), margin, margin + (total - device.low_bytes)
    ).at_least(0)
    return Terms(activations, overhead, graphs, reserve)


def utilization_of(era: VllmEra, flags: VllmFlags) -> float:
    return flags.gpu_memory_utilization or era.gpu_memory_utilization


def _activations(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> Estimate:
    """The larger of sampler and forward pass, and how far measured peaks lie from it.

    The spread holds what the formula does not know: kernels' workspaces, profiling runs of vision
    encoders, buffers between ranks, and how far the overhead and graph terms are from their median.
    """
    peak = peak_bytes(case, era, flags, limits)
    device = usable(case.accelerator).expected_bytes
    excess = scaled(device, calibration.VLLM_ACTIVATION_EXCESS_OF_DEVICE[activation_class(case)])
    return (Estimate.exact(peak) + excess).at_least(0)


def peak_bytes(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> int:
    """The larger of sampler and forward pass by their formulas."""
    per_logit = (
        FLASHINFER_BYTES_PER_LOGIT if flags.use_flashinfer_sampler else era.sampler_bytes_per_logit
    )
    sampler = sampler_bytes(limits.sequences, case.model.vocabulary_size, per_logit)
    forward = forward_bytes(case.model, limits.batched_tokens, case.parallel.tensor)
    return max(sampler, forward)


def activation_class(case: InferenceCase) -> str:
    """The kind of model and layout whose measured peaks scatter alike."""
    if any(extra.role == "encoder" and extra.loaded for extra in case.model.extras):
        return "encoder"
    if case.model.experts:
        return "experts"
    return "dense_many_ranks" if case.parallel.ranks > 1 else "dense_one_rank"


def graph_class(case: InferenceCase) -> str:
    """HIP graphs are a class of their own: the few that were measured are far from CUDA's."""
    stacks = case.accelerator.stacks
    return "rocm" if "rocm" in stacks and "cuda" not in stacks else activation_class(case)


def _outgrowing(graphs: Estimate, margin: int) -> Estimate:
    """Graphs that are captured into the margin after the cache was sized.

    Within the margin their uncertainty moves nothing; only what outgrows it is missing elsewhere.
    """
    expected = graphs.expected
    return Estimate(expected, expected, expected + max(graphs.high - max(margin, expected), 0))
