"""State space models and their hybrids with attention.

From transformers 5.24: ``mamba``, ``falcon_mamba``, ``mamba2``, ``falcon_h1``, ``jamba``,
``granitemoehybrid`` and ``nemotron_h``.
"""

from tonnage.engine.feed_forward import MixtureOfExperts
from tonnage.engine.model import FeedForward, Layer, Mixer, ModelArchitecture
from tonnage.engine.state_space import Mamba, Mamba2
from tonnage.engine.values import ceil_div

from .decoders import Experts, Habits, attention, dense, embedding_and_head, experts
from .fields import Fields
from .linear import BITS, state_bits
from .patterns import layer_count, stated_choice
from .prediction import prediction_extras
from .short_convolutions import lfm2
from .stacks import assemble, layer

NO_LIMIT = {"max_position_embeddings": 2**20}
"""A state has no longest context; a million tokens stand for it."""

PLAIN = Habits(output_bias=("attention_bias", False))


def mamba(fields: Fields, prefix: str = "") -> Mamba:
    """``prefix``: ``mamba_`` for the names that Jamba uses."""
    hidden = fields.count("hidden_size")
    inner = None if prefix else fields.maybe_count("intermediate_size", "d_inner")
    expand = fields.maybe_count(f"{prefix}expand") or 2
    names = ("mamba_dt_rank",) if prefix else ("time_step_rank",)
    automatic = fields.raw(names[0]) in (None, "auto")
    if fields.flag("mamba_proj_bias") or fields.flag("use_bias"):
        fields.refuse("mamba_proj_bias", "is not known to be true")
    fields.ignore("mamba_conv_bias", "mamba_inner_layernorms")
    return Mamba(
        inner_size=inner or expand * hidden,
        state_size=fields.count("mamba_d_state") if prefix else fields.count("state_size"),
        time_step_rank=ceil_div(hidden, 16) if automatic else fields.count(*names),
        convolution_width=(
            fields.count("mamba_d_conv") if prefix else fields.count("conv_kernel", "d_conv")
        ),
        inner_norms=bool(prefix),
    )


def mamba2(fields: Fields, bits: int | None = None) -> Mamba2:
    """Two ways to name the same fields: Granite's and Falcon's, or Nemotron's and Mamba 2's."""
    if fields.flag("mamba_proj_bias") or fields.flag("use_bias"):
        fields.refuse("mamba_proj_bias", "is not known to be true")
    fields.ignore(
        "mamba_conv_bias",
        "mamba_expand",
        "mamba_d_ssm",
        "mamba_use_mlp",
        "mamba_rms_norm",
        "mamba_norm_before_gate",
    )
    return Mamba2(
        heads=fields.count("mamba_n_heads", "mamba_num_heads", "num_heads"),
        head_dim=fields.count("mamba_d_head", "mamba_head_dim", "head_dim"),
        state_size=fields.count("mamba_d_state", "ssm_state_size", "state_size"),
        groups=fields.maybe_count("mamba_n_groups", "n_groups") or 1,
        convolution_width=fields.maybe_count("mamba_d_conv", "conv_kernel") or 4,
        state_bits=bits or 16,
    )


def pure_mamba(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields, "num_hidden_layers", "n_layer")
    fields.defaults(NO_LIMIT)
    tied = Habits(tied=fields.maybe_text("model_type") == "mamba")
    return assemble([layer(mamba(fields), None, 1)] * layers, **embedding_and_head(fields, tied))


def pure_mamba2(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    fields.defaults(NO_LIMIT)
    fields.ignore("expand", "intermediate_size")
    return assemble([layer(mamba2(fields), None, 1)] * layers, **embedding_and_head(fields, PLAIN))


def falcon_h1(fields: Fields) -> ModelArchitecture:
    """Attention and Mamba 2 side by side in each layer."""
    if fields.flag("projectors_bias"):
        fields.refuse("projectors_bias", "is not known to be true")
    both = (attention(fields, PLAIN), mamba2(fields))
    one = layer(both, dense(fields, PLAIN))
    return assemble([one] * layer_count(fields), **embedding_and_head(fields, PLAIN))


JAMBA = Habits(attention_bias=False, experts=Experts(width=("intermediate_size",)))


def jamba(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    state, softmax = mamba(fields, "mamba_"), attention(fields, JAMBA)
    period = fields.maybe_count("attn_layer_period") or 8
    offset = fields.maybe_count("attn_layer_offset") or 0
    expert_period = fields.maybe_count("expert_layer_period") or 2
    expert_offset = fields.maybe_count("expert_layer_offset") or 0
    plain = dense(fields, JAMBA)
    one_expert = fields.maybe_count("num_experts") in (None, 1)
    routed = None if one_expert else experts(fields, JAMBA, Experts(width=("intermediate_size",)))
    described = [
        layer(
            softmax if i % period == offset else state,
            routed if routed and i % expert_period == expert_offset else plain,
        )
        for i in range(layers)
    ]
    return assemble(described, **embedding_and_head(fields, JAMBA))


GRANITE_HYBRID = Habits(
    output_bias=("attention_bias", False),
    tied=True,
    experts=Experts(width=("intermediate_size",), shared_width="shared_intermediate_size"),
)


def granite_hybrid(fields: Fields) -> ModelArchitecture:
    layers = layer_count(fields)
    known = ("mamba", "linear_attention", "attention", "full_attention")
    kinds = stated_choice(fields, "layer_types", layers, known) or ["mamba"] * layers
    softmax = attention(fields, GRANITE_HYBRID)
    state = mamba2(fields) if {"mamba", "linear_attention"} & set(kinds) else None
    routed: FeedForward | None = (
        experts(fields, GRANITE_HYBRID, GRANITE_HYBRID.experts) if GRANITE_HYBRID.experts else None
    )
    feed_forward = routed or dense(fields, GRANITE_HYBRID, "shared_intermediate_size")
    fields.ignore(*(() if state else _mamba_names()))
    described = [
        layer(
            softmax if "attention" in kind and kind != "linear_attention" else state, feed_forward
        )
        for kind in kinds
    ]
    return assemble(described, **embedding_and_head(fields, GRANITE_HYBRID))


def _mamba_names() -> tuple[str, ...]:
    parts = (
        "n_heads",
        "n_groups",
        "d_state",
        "d_head",
        "d_conv",
        "expand",
        "conv_bias",
        "proj_bias",
    )
    return tuple(f"mamba_{part}" for part in parts)


NEMOTRON_H = Habits(attention_bias=False, gated=False)
BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_blocks(fields: Fields) -> list[str]:
    fields.ignore("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    listed = fields.maybe_list("layers_block_type")
    if listed is not None:
        return stated_choice(fields, "layers_block_type", len(listed), BLOCKS.values()) or []
    layers = layer_count(fields)
    pattern = fields.maybe_text("hybrid_override_pattern")
    if pattern is None:
        fields.refuse("hybrid_override_pattern", "is missing")
    if len(pattern) != layers or set(pattern) - set(BLOCKS):
        fields.refuse("hybrid_override_pattern", "does not describe each layer by M, *, - or E")
    return [BLOCKS[letter] for letter in pattern]


def nemotron_experts(fields: Fields) -> MixtureOfExperts:
    return MixtureOfExperts(
        experts=fields.count("n_routed_experts"),
        experts_per_token=fields.count("num_experts_per_tok"),
        intermediate_size=fields.count("moe_intermediate_size"),
        expert_hidden_size=fields.maybe_count("moe_latent_size"),
        shared_intermediate_size=(fields.maybe_count("n_shared_experts") or 0)
        * (fields.maybe_count("moe_shared_expert_intermediate_size") or 0),
        gated=False,
        router_bias=True,
    )


def nemotron_h(fields: Fields) -> ModelArchitecture:
    kinds = _nemotron_blocks(fields)
    bits = (
        BITS[None]
        if fields.raw("mamba_ssm_cache_dtype") is None
        else state_bits(fields, "mamba_ssm_cache_dtype")
    )
    described: dict[str, Layer] = {}
    for kind in set(kinds):
        mixer: Mixer | None = None
        feed_forward: FeedForward | None = None
        if kind == "mamba":
            mixer = mamba2(fields, bits)
        elif kind == "attention":
            mixer = attention(fields, NEMOTRON_H)
        elif kind == "mlp":
            feed_forward = dense(fields, NEMOTRON_H)
        else:
            feed_forward = nemotron_experts(fields)
        described[kind] = layer(mixer, feed_forward, 1)
    if "moe" not in described:
        fields.ignore("n_routed_experts")
    block = layer(
        attention(fields, NEMOTRON_H), described.get("moe", layer(None, None)).feed_forward
    )
    return assemble(
        [described[kind] for kind in kinds],
        extras=prediction_extras(fields, block),
        **embedding_and_head(fields, NEMOTRON_H),
    )


HYBRIDS = {
    "mamba": pure_mamba,
    "falcon_mamba": pure_mamba,
    "mamba2": pure_mamba2,
    "falcon_h1": falcon_h1,
    "jamba": jamba,
    "granitemoehybrid": granite_hybrid,
    "nemotron_h": nemotron_h,
    "lfm2": lfm2,
    "lfm2_moe": lfm2,
}
