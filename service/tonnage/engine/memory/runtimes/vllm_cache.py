"""How is the cache of a vLLM pipeline stage laid out, drafts and states included?"""

from typing import cast

from tonnage.engine.caches import TokenCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.flags import Speculative, VllmFlags
from tonnage.engine.memory.pages import (
    NO_DRAFT,
    Drafting,
    PagedCache,
    paged_cache,
    unpaged_bytes,
)
from tonnage.engine.memory.prediction import prediction_kind, prediction_layers
from tonnage.engine.memory.runtimes.vllm_limits import Limits
from tonnage.engine.memory.weights import stages
from tonnage.engine.model import ModelArchitecture


def cache_of_stage(case: InferenceCase, era: VllmEra, flags: VllmFlags, stage: int) -> PagedCache:
    windowed = era.local_layers == "windowed" and not flags.disable_hybrid_kv_cache_manager
    layers = stages(case.model, case.parallel.pipeline)[stage]
    drafting = NO_DRAFT
    if flags.speculative_config and stage == case.parallel.pipeline - 1:
        layers, drafting = _with_draft(case.model, layers, flags.speculative_config)
    _check_context_parallel(case, era, flags)
    return paged_cache(
        case.model,
        tuple(layers.items()),
        case.parallel.tensor,
        case.key_cache.encoding.bits_per_element,
        case.value_cache.encoding.bits_per_element,
        flags.block_size or era.kv_block_tokens,
        windowed=windowed,
        latent=era.latent_cache,
        state_blocks=era.state_blocks if flags.enable_prefix_caching else 1,
        states_in_pages=era.states == "in_pages",
        drafting=drafting,
        context_parallel=flags.decode_context_parallel_size,
    )


def _check_context_parallel(case: InferenceCase, era: VllmEra, flags: VllmFlags) -> None:
    """Tokens are spread over the ranks that would each hold a copy of the same heads.

    vLLM 0.10.2-0.33 ``config/model.py``, ``verify_with_parallel_config``.
    """
    size, tensor = flags.decode_context_parallel_size, case.parallel.tensor
    if size == 1:
        return
    caches = case.model.layer_caches if era.latent_cache else case.model.expanded_caches()
    heads = max(
        (
            cache.heads
            for held in caches.values()
            for cache in held
            if isinstance(cache, TokenCache) and cache.window_tokens is None
        ),
        default=tensor,
    )
    copies = max(tensor // heads, 1)
    if tensor % size == 0 and size <= copies:
        return
    legal = [n for n in range(1, copies + 1) if tensor % n == 0]
    raise Contradiction(
        f"{tensor} tensor ranks hold {copies} {'copy' if copies == 1 else 'copies'} of each cached "
        f"head; tokens can not be spread over {size} of them",
        pointer="/runtime/flags/decode_context_parallel_size",
        remedy=f"one of {', '.join(map(str, legal))}" if len(legal) > 1 else "1",
    )


def _with_draft(
    model: ModelArchitecture, layers: dict[str, int], config: Speculative
) -> tuple[dict[str, int], Drafting]:
    """The layers that cache when tokens are drafted: a model's own prediction layers join them."""
    kind = prediction_kind(model)
    if config.method == "mtp" and kind is not None:
        layers = {**layers, kind: layers.get(kind, 0) + prediction_layers(model)}
    return layers, Drafting(config.num_speculative_tokens, config.draft_layers)


def states_up_front(case: InferenceCase, limits: Limits, stage: int) -> int:
    """Bytes of states that releases before paged states allocate for all sequences at load."""
    if cast(VllmEra, case.era).states == "in_pages":
        return 0
    layers = tuple(stages(case.model, case.parallel.pipeline)[stage].items())
    return limits.sequences * unpaged_bytes(case.model, layers, case.parallel.tensor)
