"""What does mlx-lm hold of a Mac's memory?

Weights as stored, a cache that grows in steps for each sequence, and a prompt worked on in steps:
against the working set that macOS recommends for the GPU. Read from mlx-lm's ``generate.py`` and
``models/cache.py``; checked against the peaks of its BENCHMARKS.md. Left out: what the allocator
keeps for later (``mx.set_cache_limit``), a distributed group, quantized caches.
"""

from typing import cast

from tonnage.engine import calibration
from tonnage.engine.answer import Capacity, Entry, InferenceFit, Ledger, Note, ledger
from tonnage.engine.caches import StateCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import MlxEra
from tonnage.engine.estimate import Estimate
from tonnage.engine.flags import MlxFlags
from tonnage.engine.memory.capacity import searched_capacity
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.memory.runtimes.shared import (
    check_context,
    check_devices,
    check_unsplit,
    device_margin,
    scaled,
    usable,
)
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.memory.weights import (
    extra_bytes,
    final_norm_bytes,
    layer_bytes,
    vocabulary_bytes,
)
from tonnage.engine.values import round_up


def estimate(case: InferenceCase) -> InferenceFit:
    found = rank_ledgers(case)
    return InferenceFit(
        verdict=worst(found),
        bound_by=bound_by(found),
        ledgers=tuple(found),
        capacity=_capacity(case),
        host_bytes=0,
        assumptions=(
            Note(
                code="working_set_is_recommended",
                text="Held against the working set that macOS recommends; iogpu.wired_limit_mb "
                "raises it. Beyond it a run may still go on, slowly, or fail.",
            ),
            Note(
                code="prompts_one_by_one",
                text="All sequences are generated together; their prompts are worked on one at a "
                "time.",
            ),
        ),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    check_unsplit(
        case,
        "mlx-lm is modelled on one machine, without",
    )
    check_context(case)
    check_devices(case, 1, "mlx-lm is modelled on one machine")
    return [_ledger(case, case.workload.context_tokens, case.workload.concurrent_sequences)]


def weights_bytes(case: InferenceCase) -> int:
    """Every tensor of the checkpoint; a tied embedding once."""
    model, encoding = case.model, case.weights.encoding
    layers = layer_bytes(model, encoding, 1, 1)
    embedding, head = vocabulary_bytes(model, encoding, 1, 1)
    whole = (
        sum(layers[name] for name in model.order) + embedding + final_norm_bytes(model, encoding)
    )
    return whole + extra_bytes(model, encoding, 1) + (0 if model.tied_embeddings else head)


def cache_bytes(case: InferenceCase, context: int) -> int:
    """Of one sequence: whole steps of tokens, windows of sliding layers, states.

    Latent attention is cached per head until a version says otherwise (``deepseek_v2.py``).
    """
    era, flags = cast(MlxEra, case.era), cast(MlxFlags, case.flags)
    keys, values = case.key_cache.encoding, case.value_cache.encoding
    caches, found = case.model.expanded_caches(), 0
    for name, count in case.model.layer_counts.items():
        for cache in caches[name]:
            if isinstance(cache, StateCache):
                found += count * state_bytes(cache, 1)
                continue
            kept = min(context, cache.window_tokens or context, flags.max_kv_size or context)
            tokens = round_up(kept, era.cache_step_tokens)
            found += (
                count
                * tokens
                * token_bytes(cache, 1, keys.bits_per_element, values.bits_per_element)
            )
    return found


def step_bytes(case: InferenceCase, context: int) -> int:
    """The largest 16-bit vectors of one step of a prompt: a layer's, or the logits."""
    era, flags, model = cast(MlxEra, case.era), cast(MlxFlags, case.flags), case.model
    tokens = min(flags.prefill_step_size or era.prefill_tokens, context)
    layer = tokens * (3 * model.widest_feed_forward + 4 * model.hidden_size)
    logits = (tokens if era.logits_of_last_step else 1) * model.vocabulary_size
    return 2 * max(layer, logits)


def _ledger(case: InferenceCase, context: int, sequences: int) -> Ledger:
    memory = usable(case.accelerator)
    entries = [
        Entry(
            "weights",
            Estimate.exact(weights_bytes(case)),
            f"weights by module, {case.weights.id}",
        ),
        Entry(
            "kv_cache",
            Estimate.exact(sequences * cache_bytes(case, context)),
            f"cache in steps, {case.key_cache.id}",
        ),
        Entry(
            "activations",
            scaled(step_bytes(case, context), calibration.MLX_STEP_RATIO),
            "one step of a prompt, assumed ratio",
        ),
        Entry("reserve", device_margin(memory), "how far the device's total is not known"),
        Entry("in_use", Estimate.exact(case.in_use_bytes), "stated in the request"),
    ]
    return ledger((0,), memory.expected_bytes, entries)


def _capacity(case: InferenceCase) -> Capacity:
    step, limit = cast(MlxEra, case.era).cache_step_tokens, case.model.longest_context_tokens
    per_step = cache_bytes(case, limit + step) - cache_bytes(case, limit)
    return searched_capacity(
        case,
        lambda context, sequences: [_ledger(case, context, sequences)],
        kv_bytes_per_token=per_step // step,
    )
