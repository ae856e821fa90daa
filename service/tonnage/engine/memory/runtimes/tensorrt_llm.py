"""What does TensorRT-LLM leave for its KV cache?

With a built engine: a fraction of what is free once the engine and its buffers are loaded. With the
PyTorch backend: a fraction of what the peak of a profile run leaves of the whole device. Sources:
TensorRT-LLM issues 1400 and 2268 (sums of loaded engines), pull request 18669 (the profile run).
Left out: speculative decoding, attention data parallelism, the host cache.
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import InferenceFit, Ledger, Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import TensorRtLlmEra
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import TensorRtLlmFlags
from tonnage.engine.memory.activations import forward_bytes
from tonnage.engine.memory.capacity import Pool, PoolRules
from tonnage.engine.memory.loaded import loaded
from tonnage.engine.memory.runtimes.pool_server import (
    Server,
    Sources,
    Stage,
    cache_of_stages,
    fit_of,
    ledgers_and_pools,
)
from tonnage.engine.memory.runtimes.shared import (
    check_context,
    check_layout,
    check_length,
    usable,
)


def estimate(case: InferenceCase) -> InferenceFit:
    era, flags = cast(TensorRtLlmEra, case.era), cast(TensorRtLlmFlags, case.flags)
    notes = (
        Note(
            code="max_seq_len_is_context",
            text="The server is started with --max_seq_len "
            f"{flags.max_seq_len or case.workload.context_tokens}, --max_num_tokens "
            f"{flags.max_num_tokens or era.max_num_tokens} and the {era.backend} backend.",
            pointer="/runtime/flags/max_seq_len",
        ),
    )
    return fit_of(case, _server(case), notes)


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    return ledgers_and_pools(case, _server(case))[0]


def pools(case: InferenceCase) -> list[Pool]:
    return ledgers_and_pools(case, _server(case))[1]


def _server(case: InferenceCase) -> Server:
    check_layout(case)
    check_context(case)
    era, flags = cast(TensorRtLlmEra, case.era), cast(TensorRtLlmFlags, case.flags)
    check_length(case, "max_seq_len", flags.max_seq_len)
    parallel, most_sequences = case.parallel, flags.max_batch_size or era.max_batch_size
    caches = cache_of_stages(
        case, parallel.tensor, flags.tokens_per_block or era.kv_block_tokens, windowed=True
    )
    return Server(
        stages=[
            _stage(case, weights) for weights in loaded(case, parallel.tensor, parallel.tensor)
        ],
        caches=caches,
        rules=PoolRules(
            longest_tokens=flags.max_seq_len or case.model.longest_context_tokens,
            most_sequences=most_sequences,
            start_tokens=flags.max_seq_len or case.workload.context_tokens,
            fixed_length=flags.max_seq_len is not None,
        ),
        sources=Sources(
            activations="widest layer over max_num_tokens",
            overhead="device context and buffers, assumed",
            reserve=f"1 - free_gpu_memory_fraction, TensorRT-LLM {case.version}",
        ),
        most_pool_bytes=[
            None if flags.max_tokens is None else flags.max_tokens * max(cache.token_bytes, 1)
            for cache in caches
        ],
        most_at_once=("max_batch_size", most_sequences),
    )


def _stage(case: InferenceCase, weights: Estimate) -> Stage:
    era, flags = cast(TensorRtLlmEra, case.era), cast(TensorRtLlmFlags, case.flags)
    tokens = flags.max_num_tokens or era.max_num_tokens
    overhead = Estimate(*calibration.TENSORRT_LLM_OVERHEAD_BYTES)
    activations = Estimate.exact(forward_bytes(case.model, tokens, case.parallel.tensor))
    free = Estimate.exact(usable(case.accelerator).expected_bytes - case.in_use_bytes)
    left = free - overhead - weights - activations
    share = 1 - (flags.free_gpu_memory_fraction or era.free_gpu_memory_fraction)
    kept = Estimate(*(max(round(n * share), 0) for n in (left.low, left.expected, left.high)))
    return Stage(weights, overhead, activations, ZERO, kept)
