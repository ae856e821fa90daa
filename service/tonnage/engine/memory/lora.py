"""What do the slots for LoRA adapters take on one rank?

vLLM allocates ``max_loras`` slots of the largest rank for every projection when it loads, whether
adapters are there or not: A is rank x in, B is out x rank, both in 16 bit (vLLM 0.6-0.33
``lora/layers``). Column-parallel projections keep A whole and split B, row-parallel ones the
reverse; with ``fully_sharded_loras`` the whole half is split too. Left out: adapters on experts,
latent attention, embeddings and the output head.
"""

from functools import lru_cache

from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.values import ceil_div

BYTES = 2


@lru_cache(maxsize=1024)
def lora_bytes(
    model: ModelArchitecture, slots: int, rank: int, tensor: int, *, fully_sharded: bool
) -> int:
    """Bytes of all adapter slots on one rank of a model that is not split over a pipeline."""
    whole = tensor if fully_sharded else 1
    elements = 0
    for name, count in model.layer_counts.items():
        for width_in, width_out, by_column in _projections(model, name):
            split, kept = (width_out, width_in) if by_column else (width_in, width_out)
            elements += count * (ceil_div(split, tensor) + ceil_div(kept, whole))
    return BYTES * slots * rank * elements


def _projections(model: ModelArchitecture, name: str) -> list[tuple[int, int, bool]]:
    """Width in, width out, and whether the columns are what is split."""
    layer, hidden = model.kinds[name], model.hidden_size
    found: list[tuple[int, int, bool]] = []
    for mixer in layer.mixers:
        if isinstance(mixer, Attention):
            query = mixer.query_heads * mixer.head_dim
            held = mixer.key_value_heads * mixer.head_dim
            found += [(hidden, query, True), (hidden, held, True), (hidden, held, True)]
            found.append((query, hidden, False))
    for part in layer.feed_forward:
        if isinstance(part, Dense):
            wide = part.intermediate_size
            found += [(hidden, wide, True)] * (1 + part.gated)
            found.append((wide, hidden, False))
    return found
