"""What does a vLLM rank hold at the peak of its profile run, beside weights and cache?

The largest of the sampler over all sequences, the widest layer over the batch, and the encoder over
the images or sounds that the batch admits. Read from vLLM 0.6.6 to 0.33 ``gpu_model_runner.py`` and
``encoder_cache_manager.py``; what scatters around the formulas is in the calibration.
"""

from tonnage.engine import calibration
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.activations import (
    FLASHINFER_BYTES_PER_LOGIT,
    encoder_vectors_bytes,
    forward_bytes,
    sampler_bytes,
)
from tonnage.engine.memory.runtimes.shared import scaled, usable
from tonnage.engine.memory.runtimes.vllm_limits import Limits


def activations(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> Estimate:
    """The peak by its formulas, and how far measured peaks lie from it.

    The spread holds what the formulas do not know: kernels' workspaces, buffers between ranks, and
    how far the overhead and graph terms are from their median.
    """
    peak = peak_bytes(case, era, flags, limits)
    device = usable(case.accelerator).expected_bytes
    excess = scaled(device, calibration.VLLM_ACTIVATION_EXCESS_OF_DEVICE[activation_class(case)])
    return (Estimate.exact(peak) + excess).at_least(0)


def peak_bytes(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> int:
    """The largest of sampler, forward pass and encoders by their formulas."""
    sampler = _sampler_bytes(case, era, flags, limits) if case.model.generates else 0
    parallel = case.parallel
    forward = forward_bytes(
        case.model,
        limits.batched_tokens,
        parallel.tensor,
        gathered_ranks=parallel.data,
        whole_experts=parallel.expert > 1,
    )
    return max(sampler, forward, encoder_peak_bytes(case, flags, limits))


def _sampler_bytes(case: InferenceCase, era: VllmEra, flags: VllmFlags, limits: Limits) -> int:
    per_logit = era.sampler_bytes_per_logit
    if flags.use_flashinfer_sampler:
        per_logit = min(per_logit, FLASHINFER_BYTES_PER_LOGIT)
    sequences = limits.sequences
    largest = max((e.profile.tokens_per_item for e in case.model.extras if e.profile), default=0)
    if era.multimodal_batch == "by_items" and largest:
        sequences = max(min(sequences, limits.batched_tokens // largest), 1)
    return sampler_bytes(sequences, case.model.vocabulary_size, per_logit)


def encoder_vectors(case: InferenceCase, flags: VllmFlags, limits: Limits) -> int:
    """Of the widest encoder over the images or sounds that a batch admits."""
    if flags.language_model_only:
        return 0
    return max(
        (
            encoder_vectors_bytes(
                extra, limits.batched_tokens, limits.model_tokens, case.parallel.tensor
            )
            for extra in case.model.extras
        ),
        default=0,
    )


def encoder_peak_bytes(case: InferenceCase, flags: VllmFlags, limits: Limits) -> int:
    """The median of what measured profile runs hold for each byte of the encoder's vectors."""
    return round(calibration.VLLM_ENCODER_VECTORS[1] * encoder_vectors(case, flags, limits))


def activation_class(case: InferenceCase) -> str:
    """The kind of model and layout whose measured peaks scatter alike."""
    if case.model.encoder_tokens:
        return "cross_attention"
    if any(extra.role == "encoder" and extra.loaded for extra in case.model.extras):
        return "encoder"
    if case.model.experts:
        return "experts"
    return f"dense_{_ranks(case)}"


def _ranks(case: InferenceCase) -> str:
    """Whether ranks exchange vectors inside a layer or stage: data-parallel ones do not."""
    return "many_ranks" if case.parallel.tensor * case.parallel.pipeline > 1 else "one_rank"


def graph_class(case: InferenceCase) -> str:
    """HIP graphs are a class of their own: the few that were measured are far from CUDA's."""
    stacks = case.accelerator.stacks
    if "rocm" in stacks and "cuda" not in stacks:
        return "rocm"
    return f"{'experts' if case.model.experts else 'dense'}_{_ranks(case)}"
