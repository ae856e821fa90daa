"""Decoders of softmax attention and a feed-forward block: one builder, and a table of habits.

What differs between Llama, Qwen, Gemma, Mistral and forty others is which parts have biases and
norms, which layers look through a window and which route to experts; :class:`Habits` says so.
"""

from typing import Any

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense, MixtureOfExperts
from tonnage.engine.model import FeedForward, Layer, ModelArchitecture
from tonnage.engine.modules import Extra

from .fields import Fields, Switch
from .patterns import Windows, expert_layers, layer_count, window_layers
from .prediction import prediction_extras
from .stacks import assemble, layer

EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """How a family writes its experts."""

    width: tuple[str, ...] = ("moe_intermediate_size",)
    shared_width: str | None = None
    """The field with the width of all shared experts together."""
    shared_count: tuple[str, ...] = ()
    """The field with the number of shared experts, each as wide as a routed one."""
    shared_gate: bool = False
    narrow_width: str | None = None
    """The field with the width of the vector that experts work on, if it is narrower."""
    bias: bool = False
    router_bias: Switch = False
    first_dense: int = 0
    """Leading layers without experts where no field says so."""


class Habits(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same in every model of a family, or which field says it."""

    attention_bias: Switch = ("attention_bias", False)
    output_bias: Switch = False
    query_key_norm: Switch = False
    query_key_norm_wide: bool = False
    attention_sinks: bool = False
    norms: int = 2
    norm_bias: bool = False
    final_norm: bool = True
    gated: bool = True
    feed_forward_bias: Switch = ("mlp_bias", False)
    head_bias: Switch = False
    tied: bool = False
    windows: Windows = "none"
    window_every: int = 1
    experts: Experts | None = None
    defaults: dict[str, Any] = {}
    """What the library's configuration class fills in, for families whose published files rely
    on it."""


def attention(
    fields: Fields, habits: Habits, window: int | None = None, heads: int | None = None
) -> Attention:
    query_heads = heads or fields.count("num_attention_heads")
    key_value_heads = fields.maybe_count("num_key_value_heads") or query_heads
    if query_heads % key_value_heads:
        fields.refuse("num_key_value_heads", f"does not divide {query_heads} query heads")
    norm = fields.switch(habits.query_key_norm)
    return Attention(
        query_heads=query_heads,
        key_value_heads=key_value_heads,
        head_dim=head_dim(fields),
        window_tokens=window,
        query_key_value_bias=fields.switch(habits.attention_bias),
        output_bias=fields.switch(habits.output_bias),
        query_key_norm=norm,
        query_key_norm_wide=norm and habits.query_key_norm_wide,
    )


def head_dim(fields: Fields) -> int:
    stated = fields.maybe_count("head_dim", "attention_head_dim")
    if stated:
        return stated
    hidden, heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    if hidden % heads:
        fields.refuse("num_attention_heads", f"does not divide the hidden size {hidden}")
    return hidden // heads


def dense(fields: Fields, habits: Habits, *names: str) -> Dense:
    return Dense(
        intermediate_size=fields.count(*(names or ("intermediate_size",))),
        gated=habits.gated,
        bias=fields.switch(habits.feed_forward_bias),
    )


def experts(fields: Fields, habits: Habits, how: Experts) -> MixtureOfExperts | None:
    stated = {
        name: found for name in EXPERT_COUNTS if (found := fields.maybe_count(name)) is not None
    }
    for name, found in stated.items():
        if found != next(iter(stated.values())):
            fields.refuse(name, f"is {found}, and {next(iter(stated))!r} says otherwise")
    count = next(iter(stated.values()), None)
    if count is None:
        return None
    chosen = fields.count(
        "num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "top_k_experts"
    )
    if chosen > count:
        fields.refuse("num_experts_per_tok", f"is more than the {count} experts")
    width = fields.count(*how.width)
    shared = fields.maybe_count(how.shared_width) if how.shared_width else None
    if shared is None and how.shared_count:
        shared = (fields.maybe_count(*how.shared_count) or 0) * width
    return MixtureOfExperts(
        experts=count,
        experts_per_token=chosen,
        intermediate_size=width,
        expert_hidden_size=fields.maybe_count(how.narrow_width) if how.narrow_width else None,
        shared_intermediate_size=shared or 0,
        shared_gate=how.shared_gate and bool(shared),
        gated=habits.gated,
        expert_bias=how.bias,
        router_bias=fields.switch(how.router_bias),
    )


def feed_forwards(fields: Fields, habits: Habits, layers: int) -> list[FeedForward]:
    routed = experts(fields, habits, habits.experts) if habits.experts else None
    if routed is None or habits.experts is None:
        return [dense(fields, habits)] * layers
    sparse = expert_layers(fields, layers)
    stated = fields.states("mlp_layer_types") or fields.states("first_k_dense_replace")
    if habits.experts.first_dense and not stated:
        sparse = [i >= habits.experts.first_dense for i in range(layers)]
    plain = None if all(sparse) else dense(fields, habits)
    return [routed if is_sparse or plain is None else plain for is_sparse in sparse]


def context(fields: Fields, *more: str) -> int:
    return fields.count("max_position_embeddings", *more)


def embedding_and_head(fields: Fields, habits: Habits) -> dict[str, Any]:
    """The arguments of ``assemble`` that hold for every decoder.

    A checkpoint of a bare model (``Qwen3Model``, an embedding model) has no output head, which
    counts as a tied one.
    """
    classes = fields.maybe_list("architectures") or []
    headless = bool(classes) and all(str(name).endswith("Model") for name in classes)
    return {
        "hidden_size": fields.count("hidden_size"),
        "vocabulary_size": fields.count("vocab_size"),
        "tied_embeddings": fields.flag("tie_word_embeddings", habits.tied) or headless,
        "longest_context_tokens": context(fields),
        "final_norm": habits.final_norm,
    }


def habit_extras(fields: Fields, habits: Habits, layers: list[Layer]) -> list[Extra]:
    """Vectors that a habit adds and that no layer part has a place for."""
    extras = []
    if habits.attention_sinks:
        heads = fields.count("num_attention_heads")
        extras.append(Extra(name="attention sinks", role="other", parameters=heads * len(layers)))
    if habits.norm_bias and habits.final_norm:
        extras.append(
            Extra(
                name="bias of the final norm", role="norm", parameters=fields.count("hidden_size")
            )
        )
    if fields.switch(habits.head_bias):
        extras.append(
            Extra(
                name="bias of the output head",
                role="output_head",
                parameters=fields.count("vocab_size"),
                shard="vocabulary",
            )
        )
    return extras


def decoder_layers(fields: Fields, habits: Habits) -> list[Layer]:
    layers = layer_count(fields)
    windows = window_layers(fields, layers, habits.windows, habits.window_every)
    norms = habits.norms * (1 + habits.norm_bias)
    described = {window: attention(fields, habits, window) for window in set(windows)}
    return [
        layer(described[window], feed_forward, norms)
        for window, feed_forward in zip(windows, feed_forwards(fields, habits, layers), strict=True)
    ]


def decoder(
    fields: Fields, habits: Habits, extras: tuple[Extra | None, ...] = ()
) -> ModelArchitecture:
    fields.defaults(habits.defaults)
    layers = decoder_layers(fields, habits)
    return assemble(
        layers,
        extras=(
            *habit_extras(fields, habits, layers),
            *extras,
            *prediction_extras(fields, layers[-1]),
        ),
        **embedding_and_head(fields, habits),
    )
