"""Number formats and quantization schemes: how many bits a parameter or a cached element takes.

A format is a record of the catalog. What a scheme leaves unquantized is part of it: embeddings,
output head, norms and routers keep 16 bits in most, and a GGUF mix gives each role its own type.
"""

from typing import Literal

from .modules import Role
from .values import Bits, Count, ShortText, Value


class RoleBits(Value, frozen=True, kw_only=True):
    """Bits a parameter for the roles that differ from the format's ``bits_per_weight``."""

    embedding: Bits | None = None
    output_head: Bits | None = None
    tied_embedding: Bits | None = None
    """The embedding where it also serves as the output head."""
    norm: Bits | None = None
    bias: Bits | None = None
    query: Bits | None = None
    key: Bits | None = None
    value: Bits | None = None
    attention_output: Bits | None = None
    latent_down: Bits | None = None
    latent_up: Bits | None = None
    sparse_index: Bits | None = None
    router: Bits | None = None
    gate_up: Bits | None = None
    down: Bits | None = None
    expert_gate_up: Bits | None = None
    expert_down: Bits | None = None
    shared_expert: Bits | None = None
    state_space: Bits | None = None
    state_space_small: Bits | None = None
    encoder: Bits | None = None
    prediction: Bits | None = None
    other: Bits | None = None


class WeightEncoding(Value, frozen=True, kw_only=True):
    """``bits_per_weight`` counts scales and zero points: 4 + 16/128 + 4/128 for AWQ."""

    bits_per_weight: Bits
    except_roles: RoleBits = RoleBits()
    group_size: Count | None = None
    """How many weights along a row share a scale; a shard must hold whole groups."""

    def bits(self, role: Role) -> float:
        own: float | None = getattr(self.except_roles, role)
        return self.bits_per_weight if own is None else own

    def embedding_bits(self, tied: bool) -> float:
        own = self.except_roles.tied_embedding if tied else None
        return self.bits("embedding") if own is None else own


class CacheEncoding(Value, frozen=True, kw_only=True):
    """Bits of a cached element, the share of its scales included."""

    bits_per_element: Bits


class NumberFormat(Value, frozen=True, kw_only=True):
    """A way to store numbers, and which devices compute with it."""

    id: ShortText
    name: ShortText
    weights: WeightEncoding | None = None
    cache: CacheEncoding | None = None
    family: Literal["float", "integer", "gguf", "exl", "mlx"] = "float"
