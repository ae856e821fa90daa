"""The habits of each family of softmax decoders, by transformers' ``model_type``.

Read from the modelling and configuration code of transformers 5.24 (``models/<type>/``); families
that live in their publishers' repositories say so.
"""

from .decoders import Experts, Habits

QWEN_EXPERTS = Experts(shared_width="shared_expert_intermediate_size", shared_gate=True)
COUNTED_SHARED = Experts(shared_count=("n_shared_experts", "num_shared_experts"), router_bias=True)

LLAMA = Habits(attention_bias=("attention_bias", False), output_bias=("attention_bias", False))
MISTRAL = Habits(attention_bias=False, windows="all")
QWEN2 = Habits(attention_bias=True, windows="after")
QWEN3 = Habits(output_bias=("attention_bias", False), query_key_norm=True, windows="after")
GEMMA3_DEFAULTS = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 262208,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}

DECODERS: dict[str, Habits] = {
    "llama": LLAMA,
    "smollm3": LLAMA,
    "granite": LLAMA,
    "arcee": Habits(output_bias=("attention_bias", False), gated=False),
    "internlm3": Habits(
        attention_bias=("qkv_bias", False),
        output_bias=("bias", False),
        feed_forward_bias=("bias", False),
    ),
    "seed_oss": Habits(
        attention_bias=("attention_bias", True), output_bias=("attention_out_bias", False)
    ),
    "olmo": Habits(output_bias=("attention_bias", False), norms=0, final_norm=False),
    "olmo2": Habits(
        output_bias=("attention_bias", False), query_key_norm=True, query_key_norm_wide=True
    ),
    "olmo3": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=True,
        query_key_norm_wide=True,
        windows="every",
        window_every=4,
    ),
    "olmoe": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=True,
        query_key_norm_wide=True,
        experts=Experts(width=("intermediate_size",)),
    ),
    "mistral": MISTRAL,
    "ministral": Habits(attention_bias=False, windows="all"),
    "ministral3": MISTRAL,
    "mixtral": Habits(
        attention_bias=False, windows="all", experts=Experts(width=("intermediate_size",))
    ),
    "qwen2": QWEN2,
    "qwen2_moe": Habits(attention_bias=("qkv_bias", True), windows="after", experts=QWEN_EXPERTS),
    "qwen2_vl_text": QWEN2,
    "qwen2_5_vl_text": QWEN2,
    "qwen3": QWEN3,
    "qwen3_vl_text": QWEN3,
    "qwen3_moe": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=True,
        windows="after",
        experts=Experts(),
    ),
    "qwen3_vl_moe_text": Habits(
        output_bias=("attention_bias", False), query_key_norm=True, experts=Experts()
    ),
    "mimo": Habits(attention_bias=("attention_bias", True), windows="after"),
    "gemma": Habits(output_bias=("attention_bias", False), tied=True),
    "gemma2": Habits(
        output_bias=("attention_bias", False), tied=True, norms=4, windows="every", window_every=2
    ),
    "gemma3_text": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=True,
        tied=True,
        norms=4,
        windows="every",
        window_every=6,
        defaults=GEMMA3_DEFAULTS,
    ),
    "phi": Habits(
        attention_bias=True,
        output_bias=True,
        norms=1,
        norm_bias=True,
        gated=False,
        feed_forward_bias=True,
        head_bias=True,
    ),
    "phi3": Habits(attention_bias=False, windows="all"),
    "phimoe": Habits(
        output_bias=("attention_bias", False),
        norm_bias=True,
        windows="all",
        head_bias=("lm_head_bias", False),
        experts=Experts(width=("intermediate_size",)),
    ),
    "glm": Habits(attention_bias=("attention_bias", True)),
    "glm4": Habits(attention_bias=("attention_bias", True), norms=4),
    "glm4_moe": Habits(query_key_norm=("use_qk_norm", False), experts=COUNTED_SHARED),
    "gpt_oss": Habits(
        attention_bias=("attention_bias", True),
        output_bias=("attention_bias", True),
        attention_sinks=True,
        windows="every",
        window_every=2,
        experts=Experts(width=("intermediate_size",), bias=True, router_bias=True),
    ),
    "granitemoe": Habits(
        output_bias=("attention_bias", False), experts=Experts(width=("intermediate_size",))
    ),
    "cohere": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=("use_qk_norm", False),
        query_key_norm_wide=True,
        norms=1,
        tied=True,
    ),
    "cohere2": Habits(
        output_bias=("attention_bias", False), norms=1, tied=True, windows="every", window_every=4
    ),
    "starcoder2": Habits(
        attention_bias=("use_bias", True),
        output_bias=("use_bias", True),
        norm_bias=True,
        gated=False,
        feed_forward_bias=("use_bias", True),
        tied=True,
        windows="all",
    ),
    "nemotron": Habits(output_bias=("attention_bias", False), norm_bias=True, gated=False),
    "exaone4": Habits(attention_bias=False, query_key_norm=True, windows="every", window_every=4),
    "ernie4_5": Habits(
        attention_bias=("use_bias", False),
        output_bias=("use_bias", False),
        feed_forward_bias=("use_bias", False),
        tied=True,
    ),
    "ernie4_5_moe": Habits(
        attention_bias=("use_bias", False),
        output_bias=("use_bias", False),
        feed_forward_bias=("use_bias", False),
        tied=True,
        experts=Experts(shared_count=("moe_num_shared_experts",), router_bias=True),
    ),
    "hunyuan_v1_dense": Habits(output_bias=("attention_bias", False), query_key_norm=True),
    "hy_v3": Habits(
        output_bias=("attention_bias", False),
        query_key_norm=True,
        experts=Experts(shared_count=("num_shared_experts",), router_bias=True, first_dense=1),
    ),
    "minimax_m2": Habits(
        attention_bias=False,
        query_key_norm=("use_qk_norm", True),
        query_key_norm_wide=True,
        experts=Experts(width=("intermediate_size",), router_bias=("use_routing_bias", True)),
    ),
}
