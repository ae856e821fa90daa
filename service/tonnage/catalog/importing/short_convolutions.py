"""LFM2: gated short convolutions and grouped-query attention (transformers 5.24 ``lfm2``,
``lfm2_moe``).
"""

from tonnage.engine.feed_forward import Dense
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.state_space import ShortConvolution
from tonnage.engine.values import round_up

from .decoders import Experts, Habits, attention, embedding_and_head, experts
from .fields import Fields
from .patterns import layer_count, stated_kinds
from .stacks import assemble, layer

LFM2 = Habits(attention_bias=False, query_key_norm=True, tied=True, experts=Experts())


def _lfm2_width(fields: Fields) -> int:
    """Two thirds of the stated width, rounded up (``Lfm2MLP``)."""
    stated = fields.count("block_ff_dim", "intermediate_size")
    if not fields.flag("block_auto_adjust_ff_dim", True):
        return stated
    return round_up(int(2 * stated / 3), fields.maybe_count("block_multiple_of") or 256)


def lfm2(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    fields.ignore("conv_L_cache")
    if fields.flag("conv_bias"):
        fields.refuse("conv_bias", "is not known to be true")
    kinds = stated_kinds(fields, layers, ("conv", "full_attention"))
    listed = fields.maybe_counts("full_attn_idxs")
    if kinds is None:
        full = set(range(layers) if listed is None else listed)
        kinds = ["full_attention" if i in full else "conv" for i in range(layers)]
    convolution = ShortConvolution(convolution_width=fields.maybe_count("conv_L_cache") or 3)
    softmax = attention(fields, LFM2)
    routed = experts(fields, LFM2, Experts(router_bias=("use_expert_bias", True)))
    width = fields.count("intermediate_size") if routed else _lfm2_width(fields)
    plain = Dense(intermediate_size=width)
    first = (fields.maybe_count("num_dense_layers") or 0) if routed else layers
    described = [
        layer(
            convolution if kind == "conv" else softmax,
            routed if routed and i >= first else plain,
        )
        for i, kind in enumerate(kinds)
    ]
    fields.defaults({"tie_word_embeddings": fields.raw("tie_embedding")})
    return assemble(described, **embedding_and_head(fields, LFM2))
