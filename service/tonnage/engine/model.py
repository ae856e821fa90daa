"""A language model as capacity planning sees it: which layers, how many parameters, what cache.

A model is a stack of named layer kinds, so a hybrid (sliding and full attention, state space and
attention, dense and sparse) is data and needs no code of its own.
"""

from collections import Counter
from functools import cached_property
from typing import Annotated, Literal

import msgspec

from .attention import Attention, LatentAttention
from .caches import LayerCache
from .errors import Contradiction
from .feed_forward import Dense, MixtureOfExperts
from .modules import Extra, Module
from .state_space import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    ShortConvolution,
)
from .values import Count, CountOrZero, ShortText, Value

Mixer = (
    Attention
    | LatentAttention
    | GatedDeltaNet
    | KimiDeltaAttention
    | LightningAttention
    | Mamba
    | Mamba2
    | ShortConvolution
)
FeedForward = Dense | MixtureOfExperts


ModelPart = Literal["encoder", "cross_attention", "state_space", "latent_attention", "pooling"]
"""Parts that not every runtime can run."""


class Layer(Value, frozen=True, kw_only=True):
    """One kind of layer: what mixes tokens, then what works on each token."""

    name: ShortText
    mixers: Annotated[tuple[Mixer, ...], msgspec.Meta(max_length=4)] = ()
    """Usually one; two side by side in Falcon-H1, none in blocks of feed-forward alone."""
    feed_forward: Annotated[tuple[FeedForward, ...], msgspec.Meta(max_length=4)] = ()
    norms: CountOrZero = 2
    """Norm vectors as wide as the model."""

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        parts = [
            module
            for part in (*self.mixers, *self.feed_forward)
            for module in part.modules(hidden_size)
        ]
        norms = Module(role="norm", parameters=self.norms * hidden_size, shard="replicated")
        return tuple(module for module in (*parts, norms) if module.parameters)

    def caches(self, hidden_size: int) -> tuple[LayerCache, ...]:
        found = (mixer.cache(hidden_size) for mixer in self.mixers)
        return tuple(cache for cache in found if cache is not None)


class Segment(Value, frozen=True, kw_only=True):
    """``layers`` in order, ``repeat`` times."""

    repeat: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 1
    layers: Annotated[tuple[ShortText, ...], msgspec.Meta(min_length=1, max_length=2000)]


class ModelArchitecture(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    cache_hash=True,
    dict=True,
):
    """Shapes of a decoder (or encoder) stack; everything else is derived from them."""

    hidden_size: Count
    vocabulary_size: Count
    tied_embeddings: bool = False
    longest_context_tokens: Count
    layers: Annotated[tuple[Layer, ...], msgspec.Meta(min_length=1, max_length=64)]
    stack: Annotated[tuple[Segment, ...], msgspec.Meta(min_length=1, max_length=64)]
    extras: Annotated[tuple[Extra, ...], msgspec.Meta(max_length=16)] = ()
    final_norm: bool = True
    generates: bool = True
    """False for embedding, reranking and encoder models: nothing is sampled."""

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The name of every layer, first to last."""
        return tuple(
            name for segment in self.stack for _ in range(segment.repeat) for name in segment.layers
        )

    @cached_property
    def kinds(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def layer_counts(self) -> dict[str, int]:
        return dict(Counter(self.order))

    @property
    def layer_count(self) -> int:
        return len(self.order)

    @cached_property
    def layer_modules(self) -> dict[str, tuple[Module, ...]]:
        return {name: layer.modules(self.hidden_size) for name, layer in self.kinds.items()}

    @cached_property
    def layer_caches(self) -> dict[str, tuple[LayerCache, ...]]:
        return {name: layer.caches(self.hidden_size) for name, layer in self.kinds.items()}

    def expanded_caches(
        self, padded_head_dim: int | None = None
    ) -> dict[str, tuple[LayerCache, ...]]:
        """As ``layer_caches``, for a runtime that caches latent attention per head."""
        if not any(isinstance(m, LatentAttention) for layer in self.layers for m in layer.mixers):
            return self.layer_caches
        return {
            layer.name: tuple(
                cache
                for mixer in layer.mixers
                if (
                    cache := mixer.expanded_cache(padded_head_dim)
                    if isinstance(mixer, LatentAttention)
                    else mixer.cache(self.hidden_size)
                )
                is not None
            )
            for layer in self.layers
        }

    @cached_property
    def attention_heads(self) -> tuple[int, ...]:
        """The distinct query-head counts, each of which the tensor parallel size must divide."""
        heads = {
            mixer.query_heads
            for layer in self.layers
            for mixer in layer.mixers
            if isinstance(mixer, Attention | LatentAttention)
        }
        return tuple(sorted(heads))

    @cached_property
    def key_value_heads(self) -> tuple[int, ...]:
        """The distinct key/value-head counts of attention that caches per head."""
        heads = {
            mixer.key_value_heads
            for layer in self.layers
            for mixer in layer.mixers
            if isinstance(mixer, Attention)
        }
        return tuple(sorted(heads))

    @cached_property
    def parts(self) -> tuple[ModelPart, ...]:
        """What a runtime must know beside plain decoder layers."""
        mixers = [mixer for layer in self.layers for mixer in layer.mixers]
        found: list[ModelPart] = []
        if any(extra.role == "encoder" and extra.loaded for extra in self.extras):
            found.append("encoder")
        if self.encoder_tokens:
            found.append("cross_attention")
        if any(not isinstance(mixer, Attention | LatentAttention) for mixer in mixers):
            found.append("state_space")
        if self.latent_up_parameters:
            found.append("latent_attention")
        if not self.generates:
            found.append("pooling")
        return tuple(found)

    @cached_property
    def encoder_tokens(self) -> int:
        """Encoder positions that cross attention looks at; 0 without cross attention."""
        return max(
            (
                mixer.encoder_tokens or 0
                for layer in self.layers
                for mixer in layer.mixers
                if isinstance(mixer, Attention)
            ),
            default=0,
        )

    @cached_property
    def experts(self) -> int:
        """Routed experts of a layer; 0 for a dense model."""
        return max(
            (
                part.experts
                for layer in self.layers
                for part in layer.feed_forward
                if isinstance(part, MixtureOfExperts)
            ),
            default=0,
        )

    @cached_property
    def widest_feed_forward(self) -> int:
        """The widest hidden vector that one token makes inside a layer, shared experts included."""
        widths = [
            part.intermediate_size
            if isinstance(part, Dense)
            else part.intermediate_size * part.experts_per_token + part.shared_intermediate_size
            for layer in self.layers
            for part in layer.feed_forward
        ]
        return max(widths, default=0)

    @cached_property
    def rotary_width(self) -> int:
        """The widest head that rotary positions are tabulated for; 0 without attention."""
        return max(
            (
                mixer.head_dim if isinstance(mixer, Attention) else mixer.position_head_dim
                for layer in self.layers
                for mixer in layer.mixers
                if isinstance(mixer, Attention | LatentAttention)
            ),
            default=0,
        )

    @cached_property
    def latent_up_parameters(self) -> int:
        """Parameters of all up-projections from a latent cache; 0 without latent attention."""
        return sum(
            module.parameters * self.layer_counts[name]
            for name, modules in self.layer_modules.items()
            for module in modules
            if module.role == "latent_up"
        )

    @cached_property
    def embedding_parameters(self) -> int:
        return self.vocabulary_size * self.hidden_size

    @cached_property
    def parameters(self) -> int:
        """Every parameter that a runtime loads by default."""
        in_layers = sum(
            module.parameters * self.layer_counts[name]
            for name, modules in self.layer_modules.items()
            for module in modules
        )
        outside = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        extras = sum(extra.parameters for extra in self.extras if extra.loaded)
        return in_layers + outside + extras + self.hidden_size * self.final_norm

    @cached_property
    def stored_parameters(self) -> int:
        """Every parameter of the checkpoint, prediction layers included."""
        return self.parameters + sum(e.parameters for e in self.extras if not e.loaded)

    def check(self, pointer: str = "") -> None:
        """Raise Contradiction where the stack names a layer not described, or the reverse."""
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            raise Contradiction("two layers have the same name", pointer=f"{pointer}/layers")
        if sum(segment.repeat * len(segment.layers) for segment in self.stack) > 4000:
            raise Contradiction("a stack has at most 4000 layers", pointer=f"{pointer}/stack")
        used = set(self.order)
        for name in sorted(used - set(names)):
            raise Contradiction(
                f"the stack uses a layer {name!r} that `layers` does not describe",
                pointer=f"{pointer}/stack",
            )
        for name in sorted(set(names) - used):
            raise Contradiction(
                f"layer {name!r} is described and never used in the stack",
                pointer=f"{pointer}/layers",
            )
