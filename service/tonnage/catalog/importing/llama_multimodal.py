"""Llama 4's text stack, and Llama 3.2 Vision's with its cross attention.

From transformers 5.24 ``llama4`` and ``mllama``.
"""

import msgspec

from tonnage.engine.feed_forward import Dense, MixtureOfExperts
from tonnage.engine.model import Layer, ModelArchitecture
from tonnage.engine.modules import Extra

from .decoders import Experts, Habits, attention, dense, embedding_and_head, experts
from .fields import Fields
from .patterns import layer_count, stated_kinds
from .stacks import assemble, layer

LLAMA4 = Habits(
    output_bias=("attention_bias", False), experts=Experts(width=("intermediate_size",))
)
LLAMA4_DEFAULTS = {
    "attention_chunk_size": 8192,
    "interleave_moe_layer_step": 1,
    "intermediate_size_mlp": 16384,
    "head_dim": 128,
}


def _chunked(fields: Fields, layers: int) -> list[bool]:
    """Layers with positions attend within chunks; each fourth has none and sees everything."""
    kinds = stated_kinds(fields, layers, ("chunked_attention", "full_attention"))
    if kinds is not None:
        return [kind == "chunked_attention" for kind in kinds]
    positions = fields.maybe_counts("no_rope_layers")
    if positions:
        if len(positions) != layers:
            fields.refuse("no_rope_layers", f"has {len(positions)} entries for {layers} layers")
        return [bool(position) for position in positions]
    interval = fields.maybe_count("no_rope_layer_interval") or 4
    return [(i + 1) % interval != 0 for i in range(layers)]


def llama4_text(fields: Fields) -> ModelArchitecture:
    fields.defaults(LLAMA4_DEFAULTS)
    layers = layer_count(fields)
    chunk = fields.maybe_count("attention_chunk_size")
    local, everywhere = attention(fields, LLAMA4, chunk), attention(fields, LLAMA4)
    routed = experts(fields, LLAMA4, Experts(width=("intermediate_size",)))
    if routed is None:
        fields.refuse("num_local_experts", "is missing")
    one_shared = msgspec.structs.replace(routed, shared_intermediate_size=routed.intermediate_size)
    step = fields.count("interleave_moe_layer_step")
    listed = fields.maybe_counts("moe_layers")
    sparse = set(range(step - 1, layers, step) if listed is None else listed)
    plain = Dense(intermediate_size=fields.count("intermediate_size_mlp"))
    described: list[Layer] = []
    for i, is_chunked in enumerate(_chunked(fields, layers)):
        feed_forward: Dense | MixtureOfExperts = one_shared if i in sparse else plain
        described.append(layer(local if is_chunked else everywhere, feed_forward))
    return assemble(described, **embedding_and_head(fields, LLAMA4))


MLLAMA = Habits(attention_bias=False)
MLLAMA_CROSS = Habits(attention_bias=False, query_key_norm=True)


def mllama_text(fields: Fields, image_tokens: int) -> ModelArchitecture:
    """``image_tokens``: positions of the tiles that the cross attention keeps for a sequence."""
    layers = layer_count(fields)
    crossing = fields.maybe_counts("cross_attention_layers") or []
    if any(position >= layers for position in crossing):
        fields.refuse("cross_attention_layers", f"names a layer beyond the {layers}")
    itself = attention(fields, MLLAMA)
    cross = msgspec.structs.replace(attention(fields, MLLAMA_CROSS), encoder_tokens=image_tokens)
    feed_forward = dense(fields, MLLAMA)
    rows = Extra(
        name="embedding of the image token",
        role="embedding",
        parameters=8 * fields.count("hidden_size"),
    )
    return assemble(
        [layer(cross if i in set(crossing) else itself, feed_forward) for i in range(layers)],
        extras=(rows,),
        **embedding_and_head(fields, MLLAMA),
    )
