"""Number formats and quantization schemes: how many bits a parameter or a cached element takes.

A format is a record of the catalog. What a scheme leaves unquantized is part of it: embeddings,
output head, norms and routers keep 16 bits in most, and a GGUF mix gives each role its own type.
"""

from functools import lru_cache
from typing import Literal

import msgspec

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
    other_recipe: RoleBits | None = None
    """What the roles take in the other common recipe of this format, where publishers differ."""
    other_recipe_is_usual: Literal["never", "with_latent_attention"] = "never"

    @property
    def without_scales(self) -> "WeightEncoding":
        """Bits of the stored numbers alone: 4 of AWQ's 4.16."""
        return _without_scales(self)

    def recipes(self, *, latent: bool) -> tuple["WeightEncoding", "WeightEncoding"]:
        """The usual recipe and the other one, each with nothing left open.

        ``latent``: whether the model's attention caches latents, which some recipes leave alone.
        """
        return _recipes(self, latent)

    def bits(self, role: Role) -> float:
        own: float | None = getattr(self.except_roles, role)
        return self.bits_per_weight if own is None else own

    def embedding_bits(self, tied: bool) -> float:
        own = self.except_roles.tied_embedding if tied else None
        return self.bits("embedding") if own is None else own


@lru_cache(maxsize=1024)
def _without_scales(encoding: WeightEncoding) -> WeightEncoding:
    if encoding.group_size is None:
        return encoding
    return msgspec.structs.replace(encoding, bits_per_weight=float(int(encoding.bits_per_weight)))


@lru_cache(maxsize=1024)
def _recipes(encoding: WeightEncoding, latent: bool) -> tuple[WeightEncoding, WeightEncoding]:
    if encoding.other_recipe is None:
        return encoding, encoding
    plain = msgspec.structs.replace(encoding, other_recipe=None, other_recipe_is_usual="never")
    changed = msgspec.structs.asdict(encoding.except_roles)
    stated = msgspec.structs.asdict(encoding.other_recipe)
    changed.update({role: bits for role, bits in stated.items() if bits is not None})
    other = msgspec.structs.replace(plain, except_roles=RoleBits(**changed))
    if latent and encoding.other_recipe_is_usual == "with_latent_attention":
        return other, plain
    return plain, other


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
