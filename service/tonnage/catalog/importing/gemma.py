"""Gemma 3n and Gemma 4: caches shared between layers, and embeddings of their own for each layer.

From transformers 5.24 ``gemma3n``, ``gemma4`` and ``gemma4_unified``. Checkpoints store keys' and
values' projections for the layers that share a cache too, so they are counted. Per-layer embeddings
are a part outside the stack, as they can be kept off the accelerator.
"""

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense
from tonnage.engine.model import FeedForward, Layer, ModelArchitecture
from tonnage.engine.modules import Extra

from .decoders import Experts, Habits, attention, embedding_and_head, experts
from .fields import Fields
from .patterns import layer_count, window_layers
from .stacks import assemble, layer

GEMMA = Habits(
    output_bias=("attention_bias", False),
    query_key_norm=True,
    tied=True,
    windows="every",
    window_every=6,
)


def _shared(fields: Fields, layers: int) -> int:
    shared = fields.maybe_count("num_kv_shared_layers") or 0
    if shared >= layers:
        fields.refuse("num_kv_shared_layers", f"leaves none of {layers} layers with a cache")
    return layers - shared


def _attentions(fields: Fields, layers: int) -> list[Attention]:
    first_shared = _shared(fields, layers)
    local = attention(fields, GEMMA)
    same = fields.flag("attention_k_eq_v")
    wide = msgspec.structs.replace(
        local,
        head_dim=fields.maybe_count("global_head_dim") or 512,
        key_value_heads=(fields.maybe_count("num_global_key_value_heads") if same else None)
        or local.key_value_heads,
        value_from_key=same,
    )
    fields.ignore("num_global_key_value_heads")
    windows = window_layers(fields, layers, "every", 6)
    return [
        msgspec.structs.replace(
            local if window else wide, window_tokens=window, shares_cache=i >= first_shared
        )
        for i, window in enumerate(windows)
    ]


def _own_embeddings(fields: Fields, layers: int) -> list[Extra]:
    width = fields.maybe_count("hidden_size_per_layer_input")
    rows = fields.maybe_count("vocab_size_per_layer_input") or fields.count("vocab_size")
    if width is None:
        return []
    hidden = fields.count("hidden_size")
    projections = hidden * layers * width + width + layers * 2 * hidden * width
    return [
        Extra(
            name="per-layer embeddings",
            role="embedding",
            parameters=rows * layers * width,
            shard="vocabulary",
        ),
        Extra(name="per-layer projections", role="other", parameters=projections),
    ]


def gemma4_text(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    first_shared = _shared(fields, layers)
    width = fields.count("intermediate_size")
    double = fields.flag("use_double_wide_mlp")
    routed = experts(fields, GEMMA, Experts()) if fields.flag("enable_moe_block") else None
    norms = 4 + 3 * (routed is not None) + bool(fields.maybe_count("hidden_size_per_layer_input"))
    extras = _own_embeddings(fields, layers)
    if routed:
        scales = layers * (fields.count("hidden_size") + routed.experts)
        extras.append(Extra(name="router scales", role="router", parameters=scales))
    described: list[Layer] = []
    for i, mixer in enumerate(_attentions(fields, layers)):
        plain = Dense(intermediate_size=width * (2 if double and i >= first_shared else 1))
        both: tuple[FeedForward, ...] = (plain, routed) if routed else (plain,)
        described.append(layer(mixer, both, norms))
    return assemble(described, extras=extras, **embedding_and_head(fields, GEMMA))


GEMMA3N_DEFAULTS = {
    "vocab_size": 262400,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "altup_num_inputs": 4,
    "laurel_rank": 64,
    "sliding_window": 512,
    "head_dim": 256,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
}


def gemma3n_text(fields: Fields) -> ModelArchitecture:
    """Alternating updates (``altup``) and low-rank residuals (``laurel``) around each layer."""
    fields.defaults(GEMMA3N_DEFAULTS)
    layers = layer_count(fields)
    hidden = fields.count("hidden_size")
    if isinstance(fields.raw("intermediate_size"), list):
        widths = fields.maybe_counts("intermediate_size", layers) or []
        if 0 in widths:
            fields.refuse("intermediate_size", "has a zero")
    else:
        widths = [fields.count("intermediate_size")] * layers
    first_shared = _shared(fields, layers)
    local = attention(fields, GEMMA)
    described = [
        layer(
            msgspec.structs.replace(local, window_tokens=window, shares_cache=i >= first_shared),
            Dense(intermediate_size=widths[i]),
            8,
        )
        for i, window in enumerate(window_layers(fields, layers, "every", 5))
    ]
    inputs, rank = fields.count("altup_num_inputs"), fields.count("laurel_rank")
    each_layer = inputs**2 + inputs**3 + inputs * hidden + 2 * rank * hidden
    extras = (
        *_own_embeddings(fields, layers),
        Extra(
            name="alternating updates and low-rank residuals",
            role="other",
            parameters=layers * each_layer + 2 * (inputs - 1) * hidden * hidden,
        ),
    )
    return assemble(described, extras=extras, **embedding_and_head(fields, GEMMA))
