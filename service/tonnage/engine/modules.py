"""The parameter-bearing parts of a model, and how each is split over ranks.

A quantization scheme treats a module by its ``role``, a parallel layout by its ``shard``.
"""

from typing import Literal

from .values import Count, CountOrZero, ParameterCount, ShortText, Value

Role = Literal[
    "embedding",
    "output_head",
    "norm",
    "bias",
    "query",
    "key",
    "value",
    "attention_output",
    "latent_down",
    "latent_up",
    "sparse_index",
    "router",
    "gate_up",
    "down",
    "expert_gate_up",
    "expert_down",
    "shared_expert",
    "state_space",
    "state_space_small",
    "encoder",
    "prediction",
    "other",
]

Shard = Literal["tensor", "kv_heads", "expert", "vocabulary", "replicated"]


class Module(Value, frozen=True, kw_only=True):
    """Parameters of one part of one layer (or of the model, outside its layers)."""

    role: Role
    parameters: ParameterCount
    shard: Shard = "tensor"
    kv_heads: CountOrZero = 0
    """For ``kv_heads``: how many heads there are to split; beyond that they are copied."""


class EncoderProfile(Value, frozen=True, kw_only=True):
    """What one image or sound is to an encoder, at the largest that its processor passes on."""

    width: Count
    """Of the encoder's hidden vector."""
    positions_per_item: Count
    """Patches or frames that the encoder works on."""
    tokens_per_item: Count
    """Tokens that the decoder receives for them."""


class Extra(Value, frozen=True, kw_only=True):
    """A part outside the layer stack: a vision tower, learned positions, prediction layers."""

    name: ShortText
    role: Role
    parameters: ParameterCount
    shard: Shard = "replicated"
    loaded: bool = True
    """False for parts that a checkpoint stores and a runtime leaves out unless asked."""
    profile: EncoderProfile | None = None
    """Of an encoder, where its shape is known."""
