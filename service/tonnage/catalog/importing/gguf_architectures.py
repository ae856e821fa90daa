"""From a GGUF header to the engine's architecture.

Sizes come from the metadata (keys in llama.cpp ``src/llama-arch.cpp``), biases, norms, gates and a
tied head from which tensors there are, windows from what llama.cpp does (``src/models/``).
The builders are those of configurations, given the same names.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from tonnage.engine.errors import UnknownArchitecture
from tonnage.engine.model import ModelArchitecture

from .decoders import Experts, Habits, decoder, embedding_and_head
from .errors import GGUF_POINTER
from .fields import Fields
from .gguf import Header
from .gguf_metadata import Metadata
from .latent import latent_layers
from .linear import qwen_next
from .stacks import assemble

NORMS = ("attn_norm", "attn_norm_2", "ffn_norm", "post_attention_norm", "post_ffw_norm")
"""As wide as the model; each layer has those that its architecture uses."""

NAMES = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "max_position_embeddings": "context_length",
}
MAYBE_NAMES = {
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "intermediate_size": "feed_forward_length",
    "num_experts": "expert_count",
    "num_experts_per_tok": "expert_used_count",
    "moe_intermediate_size": "expert_feed_forward_length",
    "shared_expert_intermediate_size": "expert_shared_feed_forward_length",
}
STATE_NAMES = {
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "linear_key_head_dim": "ssm.state_size",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
}


class Family(NamedTuple):
    model_type: str
    """transformers' name for it."""
    window_every: int = 0
    """llama.cpp gives each layer but every n-th a window; 0: no window, whatever a key says."""
    default_window: int | None = None
    expert_width: str = "expert_feed_forward_length"


WIDE_EXPERTS = "feed_forward_length"

FAMILIES: dict[str, Family] = {
    "llama": Family("llama", expert_width=WIDE_EXPERTS),
    "mistral3": Family("ministral3", expert_width=WIDE_EXPERTS),
    "qwen2": Family("qwen2"),
    "qwen2moe": Family("qwen2_moe"),
    "qwen3": Family("qwen3"),
    "qwen3moe": Family("qwen3_moe"),
    "qwen3next": Family("qwen3_next"),
    "gemma": Family("gemma"),
    "gemma2": Family("gemma2", window_every=2, default_window=4096),
    "gemma3": Family("gemma3_text", window_every=6),
    "phi3": Family("phi3"),
    "deepseek2": Family("deepseek_v2"),
    "gpt-oss": Family("gpt_oss", window_every=2),
    "starcoder2": Family("starcoder2"),
    "command-r": Family("cohere"),
    "cohere2": Family("cohere2", window_every=4),
    "granite": Family("granite"),
    "granitemoe": Family("granitemoe", expert_width=WIDE_EXPERTS),
    "falcon": Family("falcon"),
}


def architecture_from_gguf(header: Header) -> ModelArchitecture:
    """Raises UnknownArchitecture naming the key that is missing or not understood."""
    metadata = Metadata(header)
    family = FAMILIES.get(metadata.architecture)
    if family is None:
        metadata.refuse("general.architecture", f"is {metadata.architecture[:100]!r}, not known")
    if (metadata.whole("split.count") or 1) > 1:
        metadata.refuse("split.count", "says that this is a part of a model: give all, or merge")
    config = _config(metadata, family)
    try:
        architecture = _builder(metadata)(metadata, config, _habits(metadata, config, family))
    except UnknownArchitecture as problem:
        raise UnknownArchitecture(
            _in_keys(problem.message, metadata), pointer=GGUF_POINTER
        ) from None
    metadata.check_understood()
    return _checked(architecture)


def _config(metadata: Metadata, family: Family) -> dict[str, Any]:
    config: dict[str, Any] = {name: metadata.count(key) for name, key in NAMES.items()}
    maybe = {name: metadata.maybe_count(key) for name, key in MAYBE_NAMES.items()}
    config |= {name: value for name, value in maybe.items() if value is not None}
    if "num_experts" in config:
        config["num_experts_per_tok"] = metadata.count("expert_used_count")
        config["moe_intermediate_size"] = metadata.count(family.expert_width)
    else:
        config["intermediate_size"] = metadata.count("feed_forward_length")
    embedding = metadata.parts.get("token_embd.weight")
    if embedding is None or len(embedding) != 2:
        metadata.refuse("token_embd.weight", "is not among the tensors, or no matrix")
    config["vocab_size"] = embedding[1]
    config["tie_word_embeddings"] = not metadata.has("output.weight")
    if family.window_every:
        window = metadata.maybe_count("attention.sliding_window") or family.default_window
        config["sliding_window"] = window
        listed = metadata.flags("attention.sliding_window_pattern")
        if listed is not None:
            config["layer_types"] = [
                "sliding_attention" if one else "full_attention" for one in listed
            ]
    return config


def _habits(metadata: Metadata, config: dict[str, Any], family: Family) -> Habits:
    has = metadata.has
    norm = metadata.parts.get("attn_q_norm.weight", ())
    head = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    up = metadata.parts.get("ffn_up.weight", (0, 0))
    fused = len(up) == 2 and up[1] == 2 * config.get("intermediate_size", 0) > 0
    return Habits(
        attention_bias=has("attn_q.bias") or has("attn_qkv.bias"),
        output_bias=has("attn_output.bias"),
        query_key_norm=bool(norm),
        query_key_norm_wide=bool(norm) and norm != (head,),
        attention_sinks=has("attn_sinks.weight") or has("attn_sinks"),
        norms=sum(has(f"{name}.weight") for name in NORMS),
        norm_bias=has("attn_norm.bias"),
        final_norm=has("output_norm.weight"),
        gated=fused or any(part.startswith("ffn_gate") for part in _gates(metadata)),
        feed_forward_bias=has("ffn_down.bias"),
        head_bias=has("output.bias"),
        windows="every" if family.window_every else "none",
        window_every=family.window_every or 1,
        experts=Experts(
            shared_width="shared_expert_intermediate_size",
            shared_count=("n_shared_experts",),
            shared_gate=has("ffn_gate_inp_shexp.weight"),
            bias=has("ffn_down_exps.bias"),
            router_bias=has("ffn_gate_inp.bias") or has("exp_probs_b.bias"),
        ),
    )


def _gates(metadata: Metadata) -> list[str]:
    """Gates of feed-forward blocks; ``ffn_gate_inp`` is the router."""
    return [part for part in metadata.parts if not part.startswith("ffn_gate_inp")]


Builder = Callable[[Metadata, dict[str, Any], Habits], ModelArchitecture]


def _softmax(metadata: Metadata, config: dict[str, Any], habits: Habits) -> ModelArchitecture:
    values = metadata.maybe_count("attention.value_length")
    if values not in (None, config.get("head_dim")):
        metadata.refuse(metadata.key("attention.value_length"), "differs from the key's length")
    return decoder(Fields(config), habits)


def _latent(metadata: Metadata, config: dict[str, Any], habits: Habits) -> ModelArchitecture:
    """``*_length_mla`` are there since llama.cpp keeps the latent vector; before, the others are
    the heads' own sizes."""
    rotary = metadata.count("rope.dimension_count")
    key = metadata.maybe_count("attention.key_length_mla") or metadata.count("attention.key_length")
    value = metadata.maybe_count("attention.value_length_mla")
    if key <= rotary:
        metadata.refuse(metadata.key("attention.key_length"), "is not more than the rotary part")
    fields = Fields(
        {
            **config,
            "kv_lora_rank": metadata.count("attention.kv_lora_rank"),
            "q_lora_rank": metadata.maybe_count("attention.q_lora_rank"),
            "qk_rope_head_dim": rotary,
            "qk_nope_head_dim": key - rotary,
            "v_head_dim": value or metadata.count("attention.value_length"),
            "n_shared_experts": metadata.maybe_count("expert_shared_count"),
            "first_k_dense_replace": metadata.maybe_count("leading_dense_block_count") or 0,
        }
    )
    return assemble(latent_layers(fields, habits), **embedding_and_head(fields, habits))


def _qwen_next(metadata: Metadata, config: dict[str, Any], _: Habits) -> ModelArchitecture:
    config |= {name: metadata.count(key) for name, key in STATE_NAMES.items()}
    heads, inner = config["linear_num_value_heads"], metadata.count("ssm.inner_size")
    if inner % heads:
        metadata.refuse(metadata.key("ssm.inner_size"), f"is not shared out to {heads} heads")
    config["linear_value_head_dim"] = inner // heads
    config["full_attention_interval"] = metadata.maybe_count("full_attention_interval")
    return qwen_next(Fields(config))


def _builder(metadata: Metadata) -> Builder:
    return {"deepseek2": _latent, "qwen3next": _qwen_next}.get(metadata.architecture, _softmax)


def _in_keys(message: str, metadata: Metadata) -> str:
    """The builders' names of fields as the file's keys."""
    names = NAMES | MAYBE_NAMES | STATE_NAMES
    return re.sub(
        r"`(\w+)`",
        lambda found: f"`{metadata.key(names[found[1]])}`" if found[1] in names else found[0],
        message,
    )


def _checked(architecture: ModelArchitecture) -> ModelArchitecture:
    """Sums and products of sizes must stay within bounds too."""
    try:
        return msgspec.convert(msgspec.to_builtins(architecture), ModelArchitecture)
    except msgspec.ValidationError as problem:
        raise UnknownArchitecture(
            f"the sizes are out of bounds: {problem}", pointer=GGUF_POINTER
        ) from None
