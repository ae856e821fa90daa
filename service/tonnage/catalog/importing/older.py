"""Decoders from before Llama's field names: GPT-2, GPT-J, GPT-NeoX, OPT, BLOOM, MPT, Falcon, DBRX.

Each builder renames its fields to the common ones and says the family's habits; from transformers
5.24 modules of the same names. Learned positions are a part outside the stack.
"""

from collections.abc import Callable
from typing import Any

from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Extra

from .decoders import Experts, Habits, decoder
from .fields import Fields

BIASED = Habits(
    attention_bias=True,
    output_bias=True,
    norm_bias=True,
    gated=False,
    feed_forward_bias=True,
    tied=True,
)


def learned_positions(positions: int, hidden_size: int) -> Extra:
    return Extra(name="learned positions", role="embedding", parameters=positions * hidden_size)


def renamed(fields: Fields, names: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Common name → the first of the family's names that is there."""
    found = {
        common: next((fields.raw(name) for name in own if fields.raw(name) is not None), None)
        for common, own in names.items()
    }
    return {common: value for common, value in found.items() if value is not None}


GPT_NAMES: dict[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "num_hidden_layers": ("n_layer", "n_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "max_position_embeddings": ("n_positions", "n_ctx", "max_seq_len", "seq_length"),
    "intermediate_size": ("n_inner", "ffn_dim"),
}


def gpt(fields: Fields) -> None:
    fields.defaults(renamed(fields, GPT_NAMES))
    fields.defaults({"intermediate_size": 4 * fields.count("hidden_size")})


def gpt2(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    if fields.flag("add_cross_attention"):
        fields.refuse("add_cross_attention", "is not known to be true")
    positions = learned_positions(
        fields.count("max_position_embeddings"), fields.count("hidden_size")
    )
    return decoder(fields, BIASED, (positions,))


def gpt_bigcode(fields: Fields) -> ModelArchitecture:
    if fields.flag("multi_query", True):
        fields.defaults({"num_key_value_heads": 1})
    return gpt2(fields)


def gptj(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    return decoder(
        fields,
        Habits(
            attention_bias=False,
            norms=1,
            norm_bias=True,
            gated=False,
            feed_forward_bias=True,
            head_bias=True,
        ),
    )


def gpt_neox(fields: Fields) -> ModelArchitecture:
    return decoder(
        fields,
        Habits(
            attention_bias=("attention_bias", True),
            output_bias=("attention_bias", True),
            norm_bias=True,
            gated=False,
            feed_forward_bias=True,
        ),
    )


def opt(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    hidden = fields.count("hidden_size")
    if fields.maybe_count("word_embed_proj_dim") not in (None, hidden):
        fields.refuse("word_embed_proj_dim", "differs from the hidden size, which is not known")
    if not fields.flag("do_layer_norm_before", True):
        fields.refuse("do_layer_norm_before", "is not known to be false")
    positions = fields.count("max_position_embeddings") + 2
    return decoder(fields, BIASED, (learned_positions(positions, hidden),))


def bloom(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    fields.defaults({"max_position_embeddings": 2048})
    norm = Extra(
        name="norm of the embedding", role="norm", parameters=2 * fields.count("hidden_size")
    )
    return decoder(fields, BIASED, (norm,))


def mpt(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    if not fields.flag("no_bias", True):
        fields.refuse("no_bias", "is not known to be false")
    expansion = fields.maybe_count("expansion_ratio") or 4
    fields.defaults({"intermediate_size": expansion * fields.count("hidden_size")})
    inner = fields.maybe_child("attn_config")
    if inner is not None:
        if inner.maybe_text("attn_type") not in (None, "multihead_attention"):
            inner.refuse("attn_type", "is not known")
        if inner.flag("qk_ln"):
            inner.refuse("qk_ln", "is not known to be true")
        fields.defaults({"num_key_value_heads": inner.raw("kv_n_heads")})
    return decoder(fields, Habits(attention_bias=False, gated=False, tied=True))


def falcon(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    new = fields.flag("new_decoder_architecture")
    if new:
        heads = fields.maybe_count("num_kv_heads", "n_head_kv")
        fields.defaults({"num_key_value_heads": heads, "num_ln_in_parallel_attn": 2})
        norms = fields.count("num_ln_in_parallel_attn")
    else:
        if fields.flag("multi_query", True):
            fields.defaults({"num_key_value_heads": 1})
        norms = 1 if fields.flag("parallel_attn", True) else 2
    fields.ignore("num_kv_heads", "n_head_kv")
    fields.defaults({"max_position_embeddings": 2048})
    return decoder(
        fields,
        Habits(
            attention_bias=("bias", False),
            output_bias=("bias", False),
            feed_forward_bias=("bias", False),
            norms=norms,
            norm_bias=True,
            gated=False,
            tied=True,
        ),
    )


def dbrx(fields: Fields) -> ModelArchitecture:
    gpt(fields)
    heads, routed = fields.child("attn_config"), fields.child("ffn_config")
    fields.defaults(
        {
            "num_key_value_heads": heads.raw("kv_n_heads"),
            "num_experts": routed.count("moe_num_experts"),
            "num_experts_per_tok": routed.count("moe_top_k"),
            "moe_intermediate_size": routed.count("ffn_hidden_size"),
        }
    )
    return decoder(fields, Habits(attention_bias=False, experts=Experts()))


def grok(fields: Fields) -> ModelArchitecture:
    """xAI's own release; ``ffn_dim`` is the width of one expert."""
    return decoder(
        fields,
        Habits(
            attention_bias=False,
            norms=4,
            tied=True,
            experts=Experts(width=("moe_intermediate_size", "intermediate_size")),
        ),
    )


def phi3_small(fields: Fields) -> ModelArchitecture:
    """Block-sparse layers keep the whole cache too (the repository's modeling_phi3_small.py)."""
    fields.defaults({"intermediate_size": fields.raw("ff_intermediate_size")})
    return decoder(
        fields,
        Habits(
            attention_bias=True,
            output_bias=True,
            norm_bias=True,
            feed_forward_bias=True,
            tied=True,
        ),
    )


OLDER: dict[str, Callable[[Fields], ModelArchitecture]] = {
    "gpt2": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gptj": gptj,
    "gpt_neox": gpt_neox,
    "opt": opt,
    "bloom": bloom,
    "mpt": mpt,
    "falcon": falcon,
    "dbrx": dbrx,
    "grok-1": grok,
    "phi3small": phi3_small,
}
