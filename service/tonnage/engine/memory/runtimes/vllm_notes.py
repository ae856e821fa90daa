"""What is taken for granted of a vLLM server, and what its user should beware of."""

from typing import cast

from tonnage.engine.answer import Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.capacity import Pool
from tonnage.engine.memory.runtimes.shared import idle_accelerators
from tonnage.engine.memory.runtimes.vllm_limits import Limits
from tonnage.engine.values import ceil_div

DRAFTS_WITH_A_CACHE = frozenset({"draft_model", "eagle", "dflash"})


def assumptions(case: InferenceCase, limits: Limits) -> tuple[Note, ...]:
    era, flags = cast(VllmEra, case.era), cast(VllmFlags, case.flags)
    notes = []
    if flags.max_model_len is None:
        notes.append(
            Note(
                code="max_model_len_is_context",
                text=f"The server is started with --max-model-len {limits.model_tokens}; vLLM's "
                f"own default would be {case.model.longest_context_tokens}.",
                pointer="/runtime/flags/max_model_len",
            )
        )
    if flags.gpu_memory_utilization is None and flags.kv_cache_memory_bytes is None:
        notes.append(
            Note(
                code="default_gpu_memory_utilization",
                text=f"gpu_memory_utilization {era.gpu_memory_utilization}, the default of vLLM "
                f"{case.version}.",
                pointer="/runtime/flags/gpu_memory_utilization",
            )
        )
    if flags.max_num_seqs is None or flags.max_num_batched_tokens is None:
        notes.append(
            Note(
                code="default_batch_limits",
                text=f"max_num_batched_tokens {limits.batched_tokens} and max_num_seqs "
                f"{limits.sequences}, vLLM {case.version}'s defaults here where not set.",
                pointer="/runtime/flags/max_num_batched_tokens",
            )
        )
    drafting = flags.speculative_config
    if drafting and drafting.method in DRAFTS_WITH_A_CACHE and not drafting.draft_layers:
        notes.append(
            Note(
                code="draft_cache_not_counted",
                text=f"The layers of what {drafting.method} drafts with are not stated: their "
                "cache is not counted.",
                pointer="/runtime/flags/speculative_config/draft_layers",
            )
        )
    return tuple(notes)


def warnings(case: InferenceCase, limits: Limits, pools: list[Pool]) -> tuple[Note, ...]:
    notes = list(idle_accelerators(case))
    per_replica = ceil_div(case.workload.concurrent_sequences, case.parallel.data)
    if per_replica > limits.sequences:
        notes.append(
            Note(
                code="sequences_are_queued",
                text=f"vLLM runs at most max_num_seqs = {limits.sequences} sequences of a replica "
                f"at once; the other {per_replica - limits.sequences} wait.",
                pointer="/runtime/flags/max_num_seqs",
            )
        )
    longest = case.model.longest_context_tokens
    if limits.model_tokens < longest and any(
        pool.cache.blocks(longest, limits.batched_tokens) * pool.cache.block_bytes
        > pool.memory.expected
        for pool in pools
    ):
        notes.append(
            Note(
                code="default_context_does_not_start",
                text=f"Without --max-model-len vLLM would ask for room for {longest} tokens "
                "and not start here.",
                pointer="/runtime/flags/max_model_len",
            )
        )
    return tuple(notes)
