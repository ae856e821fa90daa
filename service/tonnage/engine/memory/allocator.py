"""How much more than asked for does PyTorch's caching allocator hold for a model's weights?

A tensor of 10 MiB or more gets a segment of its own, rounded up to 2 MiB. What is left over is
split off only where it is more than 1 MiB; the rest stays with the tensor and counts as allocated,
so Qwen2.5-7B loads 14.25 GiB for 14.19 GiB of parameters. Source: ``CUDACachingAllocator.cpp`` of
PyTorch 2.0-2.9 (``kMinLargeAlloc``, ``kRoundLarge``, ``kSmallSize``). Left out: smaller tensors,
which share segments, and fragmentation while loading.
"""

from functools import lru_cache

from tonnage.engine.memory.weights import (
    VOCABULARY_MULTIPLE,
    module_bytes,
    stages,
    vocabulary_bytes,
)
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding
from tonnage.engine.values import MIB, round_up

OWN_SEGMENT_BYTES = 10 * MIB
SEGMENT_MULTIPLE = 2 * MIB
SPLIT_ABOVE_BYTES = MIB
FUSED = frozenset({"query", "key", "value"})
"""Projections that runtimes keep as one tensor."""


def left_over(asked: int) -> int:
    """Bytes that stay with one tensor beyond its own."""
    if asked < OWN_SEGMENT_BYTES:
        return 0
    rest = round_up(asked, SEGMENT_MULTIPLE) - asked
    return rest if rest <= SPLIT_ABOVE_BYTES else 0


@lru_cache(maxsize=4096)
def layer_left_over(
    model: ModelArchitecture, encoding: WeightEncoding, tensor: int, expert_ranks: int
) -> dict[str, int]:
    """Of one layer of each kind on one rank; scales are tensors of their own and small."""
    found = {}
    for name, modules in model.layer_modules.items():
        fused, amount = 0, 0
        for module in modules:
            held = module_bytes(module, encoding.without_scales, tensor, expert_ranks)
            if module.role in FUSED:
                fused += held
            else:
                amount += left_over(held)
        found[name] = amount + left_over(fused)
    return found


@lru_cache(maxsize=4096)
def stage_left_over(
    model: ModelArchitecture,
    encoding: WeightEncoding,
    tensor: int,
    pipeline: int,
    expert_ranks: int,
) -> tuple[int, ...]:
    """Of one rank of each pipeline stage, embedding and output head with the outer stages."""
    layers = layer_left_over(model, encoding, tensor, expert_ranks)
    amounts = [
        sum(layers[name] * count for name, count in stage.items())
        for stage in stages(model, pipeline)
    ]
    embedding, head = vocabulary_bytes(model, encoding, tensor, VOCABULARY_MULTIPLE)
    amounts[0] += left_over(embedding)
    if not (model.tied_embeddings and pipeline == 1):
        amounts[-1] += left_over(head)
    return tuple(amounts)
