"""How is the cache of a vLLM pipeline stage laid out, drafts and states included?"""

from typing import cast

from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import VllmEra
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
