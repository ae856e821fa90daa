"""What does Text Generation Inference leave for its KV cache?

It prefills ``max_batch_prefill_tokens`` once, then gives the cache ``free now - (1 - fraction x
wiggle room) x total``, and the blocks of that first batch. Read from TGI 2.0-3.3 ``warmup`` and
``get_free_memory``. Left out: LoRA adapters, speculation, CUDA graphs beyond an allowance.
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import InferenceFit, Ledger, Note
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import TgiEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import ZERO, Estimate
from tonnage.engine.flags import TgiFlags
from tonnage.engine.memory.activations import forward_bytes
from tonnage.engine.memory.capacity import MOST_SEQUENCES, Pool, PoolRules
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
    notes = (
        Note(
            code="max_total_tokens_is_context",
            text="The server is started with MAX_TOTAL_TOKENS "
            f"{_longest_request(case)} and MAX_BATCH_PREFILL_TOKENS {_prefill_tokens(case)}.",
            pointer="/runtime/flags/max_total_tokens",
        ),
    )
    return fit_of(case, _server(case), notes)


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    return ledgers_and_pools(case, _server(case))[0]


def pools(case: InferenceCase) -> list[Pool]:
    return ledgers_and_pools(case, _server(case))[1]


def _longest_request(case: InferenceCase) -> int:
    return cast(TgiFlags, case.flags).max_total_tokens or case.workload.context_tokens


def _prefill_tokens(case: InferenceCase) -> int:
    era, flags = cast(TgiEra, case.era), cast(TgiFlags, case.flags)
    return flags.max_batch_prefill_tokens or era.max_batch_prefill_tokens


def _server(case: InferenceCase) -> Server:
    check_layout(case)
    check_context(case)
    check_length(case, "max_total_tokens", cast(TgiFlags, case.flags).max_total_tokens)
    era, parallel = cast(TgiEra, case.era), case.parallel
    if parallel.pipeline > 1:
        raise Contradiction(
            "TGI has no pipeline parallelism: it shards every layer",
            pointer="/parallel/pipeline",
            remedy="1, with parallel.tensor over the accelerators",
        )
    return Server(
        stages=[
            _stage(case, weights) for weights in loaded(case, parallel.tensor, parallel.tensor)
        ],
        caches=cache_of_stages(case, parallel.tensor, era.kv_block_tokens, windowed=False),
        rules=PoolRules(
            longest_tokens=cast(TgiFlags, case.flags).max_total_tokens
            or case.model.longest_context_tokens,
            most_sequences=MOST_SEQUENCES,
            start_tokens=_longest_request(case),
        ),
        sources=Sources(
            activations="widest layer over the warm-up's prefill",
            overhead="device context and graphs, assumed",
            reserve=f"1 - CUDA_MEMORY_FRACTION x wiggle room, TGI {case.version}",
        ),
        most_pool_bytes=[None],
    )


def _stage(case: InferenceCase, weights: Estimate) -> Stage:
    era, flags = cast(TgiEra, case.era), cast(TgiFlags, case.flags)
    total = usable(case.accelerator).expected_bytes
    share = (flags.cuda_memory_fraction or 1.0) * era.wiggle_room
    activations = Estimate.exact(
        forward_bytes(case.model, _prefill_tokens(case), case.parallel.tensor)
    )
    overhead = Estimate(*calibration.TGI_OVERHEAD_BYTES)
    return Stage(weights, overhead, activations, ZERO, Estimate.exact(round(total * (1 - share))))
