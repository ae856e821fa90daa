"""Softmax decoders that need more than a row of habits.

From transformers 5.24 ``hunyuan_v1_moe``, ``laguna``, ``mimo_v2_flash`` and ``muse_glimmer``, and
NVIDIA's ``modeling_decilm.py`` for the stacks that an architecture search found.
"""

from collections.abc import Callable

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense
from tonnage.engine.model import FeedForward, Layer, Mixer, ModelArchitecture
from tonnage.engine.modules import Extra
from tonnage.engine.values import round_up

from .decoders import (
    Experts,
    Habits,
    attention,
    decoder,
    decoder_layers,
    embedding_and_head,
    feed_forwards,
)
from .fields import Fields
from .patterns import layer_count, window_layers
from .prediction import prediction_extras
from .stacks import assemble, layer


def one_for_all(fields: Fields, name: str) -> int | None:
    """A number, or a list that repeats it for each layer."""
    value = fields.raw(name)
    if not isinstance(value, list):
        return fields.maybe_count(name)
    listed = fields.maybe_counts(name) or []
    if len(set(listed)) != 1:
        fields.refuse(name, "differs between layers, which is not known")
    return listed[0] or None


HUNYUAN = Habits(
    output_bias=("attention_bias", False),
    query_key_norm=("use_qk_norm", True),
    tied=True,
    experts=Experts(
        width=("moe_intermediate_size", "intermediate_size"), shared_count=("num_shared_expert",)
    ),
)


def hunyuan_moe(fields: Fields) -> ModelArchitecture:
    if fields.flag("use_cla"):
        fields.refuse("use_cla", "shares caches between layers in a way that is not known")
    flat = {
        name: one_for_all(fields, name)
        for name in ("moe_topk", "moe_intermediate_size", "num_shared_expert")
    }
    same = fields.overridden({**flat, "num_shared_expert": flat["num_shared_expert"] or 1})
    described = decoder_layers(same, HUNYUAN)
    return assemble(described, **embedding_and_head(same, HUNYUAN))


LAGUNA = Habits(
    output_bias=("attention_bias", False),
    query_key_norm=True,
    windows="every",
    experts=Experts(
        shared_width="shared_expert_intermediate_size", router_bias=True, first_dense=1
    ),
)


def laguna(fields: Fields) -> ModelArchitecture:
    """Each layer has its own number of query heads, and a gate for each of them."""
    layers = layer_count(fields)
    heads = fields.maybe_counts("num_attention_heads_per_layer", layers)
    counts = heads or [fields.count("num_attention_heads")] * layers
    if 0 in counts:
        fields.refuse("num_attention_heads_per_layer", "has a zero")
    gate = fields.raw("gating")
    if gate not in (None, True, False, "per-head"):
        fields.refuse("gating", f"is {gate!r}, which is not known")
    described = [
        layer(attention(fields, LAGUNA, window, count), feed_forward)
        for window, count, feed_forward in zip(
            window_layers(fields, layers, "every", 1),
            counts,
            feed_forwards(fields, LAGUNA, layers),
            strict=True,
        )
    ]
    gates = 0 if gate is False else sum(counts) * fields.count("hidden_size")
    return assemble(
        described,
        extras=(Extra(name="attention gates", role="query", parameters=gates, shard="tensor"),),
        **embedding_and_head(fields, LAGUNA),
    )


MIMO_V2 = Habits(experts=Experts(router_bias=True))


def mimo_v2(fields: Fields) -> ModelArchitecture:
    """``hybrid_layer_pattern``: 1 for a layer that looks through the window, with its own heads."""
    layers = layer_count(fields)
    pattern = fields.maybe_counts("hybrid_layer_pattern", layers) or [0] * layers
    fields.ignore("attention_chunk_size")
    full = msgspec.structs.replace(
        attention(fields, MIMO_V2), value_head_dim=fields.maybe_count("v_head_dim")
    )
    heads = fields.maybe_count("swa_num_attention_heads") or full.query_heads
    local = Attention(
        query_heads=heads,
        key_value_heads=fields.maybe_count("swa_num_key_value_heads") or full.key_value_heads,
        head_dim=fields.maybe_count("swa_head_dim") or full.head_dim,
        value_head_dim=fields.maybe_count("swa_v_head_dim") or full.value_head_dim,
        window_tokens=fields.count("sliding_window", "sliding_window_size"),
        query_key_value_bias=full.query_key_value_bias,
    )
    described = [
        layer(local if windowed else full, feed_forward)
        for windowed, feed_forward in zip(
            pattern, feed_forwards(fields, MIMO_V2, layers), strict=True
        )
    ]
    sinks = Extra(name="attention sinks", role="other", parameters=heads * sum(map(bool, pattern)))
    return assemble(
        described,
        extras=(sinks, *prediction_extras(fields, described[-1])),
        **embedding_and_head(fields, MIMO_V2),
    )


MUSE = Habits(norms=4, windows="every", window_every=4)


def muse_glimmer_text(fields: Fields) -> ModelArchitecture:
    """A gate on the attention's output; full attention in each fourth layer from the last."""
    layers = layer_count(fields)
    if fields.raw("layer_types") is None:
        kinds = [
            "sliding_attention" if (layers - 1 - i) % 4 else "full_attention" for i in range(layers)
        ]
        fields = fields.overridden({"layer_types": kinds})
    described = [
        msgspec.structs.replace(
            one,
            mixers=tuple(
                msgspec.structs.replace(mixer, output_gate=True)
                for mixer in one.mixers
                if isinstance(mixer, Attention)
            ),
        )
        for one in decoder_layers(fields, MUSE)
    ]
    return assemble(described, **embedding_and_head(fields, MUSE))


def nemotron_nas(fields: Fields) -> ModelArchitecture:
    """``block_configs``: for each block its attention and feed-forward part, or none of one."""
    hidden = fields.count("hidden_size")
    query_heads = fields.count("num_attention_heads")
    layers = layer_count(fields)
    blocks = fields.maybe_list("block_configs", layers)
    if blocks is None:
        fields.refuse("block_configs", "is missing")
    described: list[Layer] = []
    for position, block in enumerate(blocks):
        if not isinstance(block, dict):
            fields.refuse_entry("block_configs", position, "is not an object")
        inside = Fields(block, f"{fields.pointer}/block_configs/{position}")
        mixer = _nas_attention(inside.child("attention"), query_heads, hidden)
        feed_forward = _nas_feed_forward(inside.child("ffn"), hidden)
        norms = (mixer is not None) + (feed_forward is not None)
        described.append(layer(mixer, feed_forward, norms))
    return assemble(described, **embedding_and_head(fields, Habits()))


def _nas_attention(part: Fields, query_heads: int, hidden: int) -> Mixer | None:
    if part.flag("no_op"):
        return None
    for name in ("replace_with_linear", "unshifted_sink", "use_prefill_window_in_sink_attention"):
        if part.flag(name):
            part.refuse(name, "is not known to be true")
    group = part.count("n_heads_in_group")
    if query_heads % group or hidden % query_heads:
        part.refuse("n_heads_in_group", f"does not divide {query_heads} query heads")
    return Attention(
        query_heads=query_heads,
        key_value_heads=query_heads // group,
        head_dim=hidden // query_heads,
        window_tokens=part.maybe_count("window_length"),
    )


def _nas_feed_forward(part: Fields, hidden: int) -> FeedForward | None:
    if part.flag("no_op"):
        return None
    if part.flag("replace_with_linear"):
        part.refuse("replace_with_linear", "is not known to be true")
    factor = part.raw("ffn_mult")
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor < 1000:
        part.refuse("ffn_mult", "is not a factor")
    return Dense(intermediate_size=max(round_up(int(2 * factor * hidden / 3), 256), 256))


def stablelm(fields: Fields) -> ModelArchitecture:
    """One norm a layer where attention and feed-forward run side by side."""
    norms = 1 if fields.flag("use_parallel_residual") else 2
    habits = Habits(attention_bias=("use_qkv_bias", False), norms=norms, norm_bias=True)
    return decoder(fields, habits)


VARIANTS: dict[str, Callable[[Fields], ModelArchitecture]] = {
    "hunyuan_v1_moe": hunyuan_moe,
    "laguna": laguna,
    "mimo_v2_flash": mimo_v2,
    "muse_glimmer_text": muse_glimmer_text,
    "nemotron-nas": nemotron_nas,
    "stablelm": stablelm,
}
