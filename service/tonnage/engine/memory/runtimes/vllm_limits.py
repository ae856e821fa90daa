"""Under which batch limits does a vLLM server run, where its user set them or not?

They decide the activation peak and the blocks of windowed layers. Defaults depend on the version
and on the device's memory. Read from vLLM 0.6.6 to 0.33 ``arg_utils.py``.
"""

from typing import NamedTuple

from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import BatchTier, VllmEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.values import GIB

LONG_CONTEXT_TOKENS = 32768
"""Beyond this, engine V0 cut prefill into chunks by itself (``arg_utils.py``)."""


class Limits(NamedTuple):
    """The batch limits that are in force."""

    model_tokens: int
    batched_tokens: int
    sequences: int


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
