"""Hybrids of linear attention and softmax attention: Qwen3-Next, Qwen 3.5, Kimi Linear, MiniMax-01.

From transformers 5.24 ``qwen3_next``, ``qwen3_5``, ``qwen3_5_moe``, ``kimi_linear``, ``minimax``.
"""

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.model import Layer, Mixer, ModelArchitecture
from tonnage.engine.modules import Extra
from tonnage.engine.state_space import GatedDeltaNet, KimiDeltaAttention, LightningAttention

from .decoders import Experts, Habits, attention, embedding_and_head, feed_forwards, head_dim
from .families import QWEN_EXPERTS
from .fields import Fields
from .latent import latent_attention
from .patterns import layer_count, stated_kinds
from .prediction import prediction_extras
from .stacks import assemble, layer

BITS = {None: 32, "float32": 32, "float16": 16, "bfloat16": 16}
QWEN_NEXT = Habits(query_key_norm=True, experts=QWEN_EXPERTS)


def state_bits(fields: Fields, name: str) -> int:
    stated = fields.maybe_text(name)
    if stated not in BITS:
        fields.refuse(name, f"{stated!r} is not known")
    return BITS[stated]


def interleaved(fields: Fields, layers: int, every: int) -> list[str]:
    """``layer_types``, or full attention in each n-th layer and linear attention elsewhere."""
    stated = stated_kinds(fields, layers, ("linear_attention", "full_attention"))
    interval = fields.maybe_count("full_attention_interval") or every
    return stated or [
        "linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)
    ]


def gated_delta_net(fields: Fields) -> GatedDeltaNet:
    return GatedDeltaNet(
        key_heads=fields.count("linear_num_key_heads"),
        value_heads=fields.count("linear_num_value_heads"),
        key_head_dim=fields.count("linear_key_head_dim"),
        value_head_dim=fields.count("linear_value_head_dim"),
        convolution_width=fields.count("linear_conv_kernel_dim"),
        state_bits=state_bits(fields, "mamba_ssm_dtype"),
    )


def qwen_next(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    gate = fields.flag("attn_output_gate", True)
    full = msgspec.structs.replace(attention(fields, QWEN_NEXT), output_gate=gate)
    mixers: dict[str, Mixer] = {"linear_attention": gated_delta_net(fields), "full_attention": full}
    described = [
        layer(mixers[kind], feed_forward)
        for kind, feed_forward in zip(
            interleaved(fields, layers, 4), feed_forwards(fields, QWEN_NEXT, layers), strict=True
        )
    ]
    predicting = layer(full, described[-1].feed_forward)
    return assemble(
        described,
        extras=prediction_extras(fields, predicting),
        **embedding_and_head(fields, QWEN_NEXT),
    )


def kimi_layers(fields: Fields, layers: int, inner: Fields | None) -> list[str]:
    """The checkpoint's own lists count layers from one."""
    stated = stated_kinds(fields, layers, ("linear_attention", "full_attention"))
    if stated is not None or inner is None:
        return stated or [
            "full_attention" if i and i % 4 == 0 else "linear_attention" for i in range(layers)
        ]
    full = set(inner.maybe_counts("full_attn_layers") or ())
    linear = set(inner.maybe_counts("kda_layers") or ())
    if full & linear or full | linear != set(range(1, layers + 1)):
        inner.refuse("kda_layers", "and `full_attn_layers` do not share out the layers")
    return ["full_attention" if i + 1 in full else "linear_attention" for i in range(layers)]


KIMI_LINEAR = Habits(
    experts=Experts(
        shared_count=("num_shared_experts", "n_shared_experts"),
        narrow_width="routed_expert_hidden_size",
        router_bias=True,
        first_dense=1,
    )
)


def kimi_linear(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    inner = fields.maybe_child("linear_attn_config")
    source, names = (
        (inner, ("num_heads", "head_dim", "short_conv_kernel_size"))
        if inner
        else (fields, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim"))
    )
    heads, dim, width = (source.count(name) for name in names)
    delta = KimiDeltaAttention(heads=heads, head_dim=dim, convolution_width=width)
    full_rank = int(inner is not None and inner.flag("use_full_rank_gate"))
    fields.defaults({"max_position_embeddings": fields.raw("model_max_length") or 2**20})
    kinds = kimi_layers(fields, layers, inner)
    return _delta_and_latent(fields, KIMI_LINEAR, kinds, delta, full_rank)


def bailing_hybrid(fields: Fields) -> ModelArchitecture:
    """Ling 3: delta attention whose two gates are of full rank, latent attention in each sixth."""
    layers = layer_count(fields)
    every = fields.maybe_count("layer_group_size") or 6
    delta = KimiDeltaAttention(
        heads=fields.count("num_attention_heads"),
        head_dim=fields.maybe_count("linear_head_dim", "head_dim") or 128,
        convolution_width=fields.maybe_count("short_conv_kernel_size") or 4,
    )
    fields.ignore("linear_num_heads", "linear_conv_kernel_dim")
    kinds = interleaved(fields, layers, every)
    return _delta_and_latent(fields, KIMI_LINEAR, kinds, delta, 2, gate_heads=True)


def _delta_and_latent(
    fields: Fields,
    habits: Habits,
    kinds: list[str],
    delta: KimiDeltaAttention,
    full_rank_gates: int,
    *,
    gate_heads: bool = False,
) -> ModelArchitecture:
    """``full_rank_gates``: how many of the delta attention's two gates are not low-rank."""
    mixers: dict[str, Mixer] = {
        "linear_attention": delta,
        "full_attention": latent_attention(fields),
    }
    described = [
        layer(mixers[kind], feed_forward)
        for kind, feed_forward in zip(kinds, feed_forwards(fields, habits, len(kinds)), strict=True)
    ]
    hidden, width = fields.count("hidden_size"), delta.heads * delta.head_dim
    wider = hidden * width - delta.head_dim * (hidden + width)
    latent = kinds.count("full_attention")
    outputs = fields.count("num_attention_heads") * (
        fields.count("v_head_dim") * fields.flag("mla_use_output_gate") + gate_heads
    )
    gates = (len(kinds) - latent) * full_rank_gates * wider + latent * hidden * outputs
    narrow = fields.maybe_count("routed_expert_hidden_size") or 0
    norms = len(kinds) * narrow * fields.flag("latent_moe_use_norm")
    return assemble(
        described,
        extras=(
            Extra(
                name="attention gates", role="state_space", parameters=max(gates, 0), shard="tensor"
            ),
            Extra(name="norms of the experts' input", role="norm", parameters=norms),
            *prediction_extras(fields, described[-1]),
        ),
        **embedding_and_head(fields, habits),
    )


MINIMAX = Habits(experts=Experts(width=("intermediate_size",)))


def minimax(fields: Fields) -> ModelArchitecture:
    """MiniMax-Text-01: ``attn_type_list`` has 1 for softmax attention, in each eighth layer."""
    layers = layer_count(fields)
    kinds = stated_kinds(fields, layers, ("linear_attention", "full_attention"))
    listed = fields.maybe_counts("attn_type_list", layers)
    if kinds is None:
        softmax = listed or [int((i + 1) % 2 == 0) for i in range(layers)]
        kinds = ["full_attention" if one else "linear_attention" for one in softmax]
    heads: int = fields.count("num_attention_heads")
    lightning = LightningAttention(heads=heads, head_dim=head_dim(fields))
    softmax_attention: Attention = attention(fields, MINIMAX)
    mixers: dict[str, Mixer] = {"linear_attention": lightning, "full_attention": softmax_attention}
    described: list[Layer] = [
        layer(mixers[kind], feed_forward)
        for kind, feed_forward in zip(kinds, feed_forwards(fields, MINIMAX, layers), strict=True)
    ]
    return assemble(described, **embedding_and_head(fields, MINIMAX))
