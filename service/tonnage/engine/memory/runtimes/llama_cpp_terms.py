"""What does each layer take under llama.cpp, on a device or in system memory?

The token embedding stays in system memory even at full offload (a tied one is held twice); the
cache has ``context x sequences`` cells, padded, and sliding-window layers only their window and one
micro-batch; compute buffers are float32. Checked against the buffers that builds b1691-b7500 print.
"""

from typing import NamedTuple, cast

import msgspec

from tonnage.engine.attention import LatentAttention
from tonnage.engine.caches import LayerCache, StateCache, TokenCache
from tonnage.engine.case import InferenceCase
from tonnage.engine.eras import LlamaCppEra
from tonnage.engine.flags import LlamaCppFlags
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.memory.weights import (
    extra_bytes,
    final_norm_bytes,
    layer_bytes,
    module_bytes,
    vocabulary_bytes,
)
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import ceil_div, round_up

STATE_BITS = 32
"""llama.cpp keeps recurrent and convolution states as float32."""


def micro_batch(case: InferenceCase, cells: int) -> int:
    """Tokens worked on at once: the flag's, and never more than the context of all sequences."""
    flags, era = cast(LlamaCppFlags, case.flags), cast(LlamaCppEra, case.era)
    return min(flags.ubatch_size or era.micro_batch_tokens, cells)


def layer_caches(case: InferenceCase, name: str) -> tuple[LayerCache, ...]:
    """What a layer of this kind caches: latent attention as its latent, or per head.

    The first builds with a latent cache kept its compressed values a second time (llama.cpp pull
    request 19067 ends it).
    """
    era, model = cast(LlamaCppEra, case.era), case.model
    if not era.latent_cache:
        return model.expanded_caches()[name]
    if not era.latent_values:
        return model.layer_caches[name]
    ranks = [
        mixer.key_value_lora_rank if isinstance(mixer, LatentAttention) else None
        for mixer in model.kinds[name].mixers
        if mixer.cache(model.hidden_size) is not None
    ]
    return tuple(
        msgspec.structs.replace(cache, value_elements=rank)
        if rank is not None and isinstance(cache, TokenCache)
        else cache
        for cache, rank in zip(model.layer_caches[name], ranks, strict=True)
    )


def layer_cache_bytes(case: InferenceCase, name: str, context: int, sequences: int) -> int:
    """Bytes that one layer of this kind caches for all sequences."""
    era, flags = cast(LlamaCppEra, case.era), cast(LlamaCppFlags, case.flags)
    padding = era.context_padding_tokens
    cells = round_up(context * sequences, padding)
    found = 0
    for cache in layer_caches(case, name):
        if isinstance(cache, StateCache):
            found += sequences * state_bytes(cache, 1, STATE_BITS, STATE_BITS)
            continue
        kept = cells
        if cache.window_tokens and era.local_layers == "windowed" and not flags.swa_full:
            window = round_up(cache.window_tokens + micro_batch(case, context * sequences), padding)
            kept = min(cells, sequences * window)
        found += kept * token_bytes(
            cache,
            1,
            case.key_cache.encoding.bits_per_element,
            case.value_cache.encoding.bits_per_element,
        )
    return found


def flash_attention(case: InferenceCase) -> bool:
    flags, era = cast(LlamaCppFlags, case.flags), cast(LlamaCppEra, case.era)
    return era.flash_attention if flags.flash_attn is None else flags.flash_attn


def split(model: ModelArchitecture, layers: int, devices: int) -> tuple[tuple[str, ...], ...]:
    """The names of the layers on each device: the last ones are offloaded, in equal runs."""
    names = model.order[model.layer_count - layers :]
    per_device = ceil_div(len(names), devices) if names else 0
    return tuple(names[i * per_device : (i + 1) * per_device] for i in range(devices))


class Placement(NamedTuple):
    """What ``n_gpu_layers`` puts on the devices: layers of the stack, and the output layer."""

    layers: int
    output: bool


def placement(case: InferenceCase, wanted: int | None = None) -> Placement:
    """Where a number of layers goes; None is the number of the flags, all when left out.

    The output layer counts as one more. It was the last to go to a device until llama.cpp pull
    request 18148 (December 2025), and is the first since.
    """
    if wanted is None:
        wanted = cast(LlamaCppFlags, case.flags).n_gpu_layers
    everything = case.model.layer_count + 1
    wanted = everything if wanted is None else min(wanted, everything)
    if cast(LlamaCppEra, case.era).output_first:
        return Placement(max(wanted - 1, 0), wanted > 0)
    return Placement(min(wanted, case.model.layer_count), wanted == everything)


def backend(case: InferenceCase) -> str:
    """The backend that a build for the device opens: the one stated, or its own before Vulkan."""
    stated = cast(LlamaCppFlags, case.flags).backend
    if stated is not None:
        return stated
    for name in ("cuda", "metal", "rocm", "vulkan"):
        if name in case.accelerator.stacks:
            return name
    return "other"


def matrices(case: InferenceCase, name: str) -> list[int]:
    """Bytes of each weight matrix of a layer; gate and up projections are two."""
    found = []
    for module in case.model.layer_modules[name]:
        amount = module_bytes(module, case.weights.encoding, 1, 1)
        two = module.role in ("gate_up", "expert_gate_up")
        found += [amount // 2] * 2 if two else [amount]
    return found


def allocation_waste(case: InferenceCase, names: tuple[str, ...], parts: int) -> int:
    """What CUDA's allocation steps add to matrices that are allocated one by one.

    ``cudaMalloc`` maps pages of 2 MiB; what is smaller than half a page shares one.
    """
    step = cast(LlamaCppEra, case.era).allocation_step_bytes
    if not step or backend(case) not in ("cuda", "rocm"):
        return 0
    waste = {
        name: sum(
            -amount % step
            for amount in (whole // parts for whole in matrices(case, name))
            if amount > step // 2
        )
        for name in dict.fromkeys(names)
    }
    return sum(waste[name] for name in names)


def output_bytes(case: InferenceCase) -> int:
    _, head = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    return (
        head
        + final_norm_bytes(case.model, case.weights.encoding)
        + extra_bytes(case.model, case.weights.encoding, 1, encoder=False)
    )


def host_bytes(case: InferenceCase, placed: Placement, context: int, sequences: int) -> int:
    """Weights and cache that stay in system memory, the token embedding among them."""
    kept = host_layers(case, placed)
    cached = case.model.order if cast(LlamaCppFlags, case.flags).no_kv_offload else kept
    return host_weights(case, placed) + sum(
        layer_cache_bytes(case, name, context, sequences) for name in cached
    )


def host_weights(case: InferenceCase, placed: Placement) -> int:
    layers = layer_bytes(case.model, case.weights.encoding, 1, 1)
    embedding, _ = vocabulary_bytes(case.model, case.weights.encoding, 1, 1)
    amount = embedding + sum(layers[name] for name in host_layers(case, placed))
    if not placed.output:
        amount += output_bytes(case) - (embedding if case.model.tied_embeddings else 0)
    return amount


def pinned_weights(case: InferenceCase, placed: Placement) -> int:
    """Host weights that count against the device's own limit.

    Vulkan allocates them as pinned memory, which a device that shares its memory maps itself
    (GTT on a Strix Halo: a Llama 8B takes its 282 MiB of embedding more than under HIP).
    """
    if backend(case) != "vulkan" or not case.accelerator.unified_memory:
        return 0
    return host_weights(case, placed)


def host_layers(case: InferenceCase, placed: Placement) -> tuple[str, ...]:
    return case.model.order[: case.model.layer_count - placed.layers]
