"""Configurations of the Hub to architectures: exact counts, caches, layer order and refusals.

Each configuration is what its repository publishes, without the fields that say nothing about
memory; the counts are those of the published weights (Hub safetensors totals).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tonnage.catalog.importing import architecture_from_config, checkpoint_format_from_config
from tonnage.catalog.importing.huggingface import BUILDERS
from tonnage.engine.attention import Attention
from tonnage.engine.caches import StateCache, TokenCache
from tonnage.engine.errors import EngineError, UnknownArchitecture
from tonnage.engine.model import ModelArchitecture

LLAMA_31_8B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "bfloat16",
}
QWEN25_7B: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
}
QWEN3_30B_A3B: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "sliding_window": None,
    "tie_word_embeddings": False,
}
QWEN3_NEXT_80B: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "decoder_sparse_step": 1,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
GPT_OSS_20B: dict[str, Any] = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "attention_bias": True,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "experts_per_token": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "sliding_window": 128,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
}
GEMMA3_27B: dict[str, Any] = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_hidden_layers": 62,
        "num_attention_heads": 32,
        "num_key_value_heads": 16,
        "head_dim": 128,
        "sliding_window": 1024,
    },
    "vision_config": {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_hidden_layers": 27,
        "num_attention_heads": 16,
        "image_size": 896,
        "patch_size": 14,
    },
    "torch_dtype": "bfloat16",
}
DEEPSEEK_R1: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"},
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
    "max_position_embeddings": 163840,
    "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}
MISTRAL_7B: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
NEMOTRON_3_NANO: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "num_hidden_layers": 52,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "mamba_proj_bias": False,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "vocab_size": 131072,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
}
FALCON_MAMBA: dict[str, Any] = {
    "model_type": "falcon_mamba",
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 64,
    "state_size": 16,
    "conv_kernel": 4,
    "time_step_rank": 256,
    "vocab_size": 65024,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
OLMO2_7B: dict[str, Any] = {
    "model_type": "olmo2",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 100352,
    "max_position_embeddings": 4096,
}
LLAMA4_SCOUT_TEXT: dict[str, Any] = {
    "model_type": "llama4_text",
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_local_experts": 16,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 1,
    "attention_chunk_size": 8192,
    "vocab_size": 202048,
    "max_position_embeddings": 10485760,
}


def caches(architecture: ModelArchitecture) -> dict[str, tuple[int, ...]]:
    """For each kind of layer: (heads, key, value, window or 0), or the elements of its state."""
    found: dict[str, tuple[int, ...]] = {}
    for name, kept in architecture.layer_caches.items():
        for cache in kept:
            if isinstance(cache, TokenCache):
                window = cache.window_tokens or 0
                found[name] = (cache.heads, cache.key_elements, cache.value_elements, window)
            else:
                assert isinstance(cache, StateCache)
                found[name] = (cache.convolution_elements, cache.recurrent_elements)
    return found


EXACT: dict[str, tuple[dict[str, Any], int, dict[str, tuple[int, ...]], dict[str, int]]] = {
    "llama": (LLAMA_31_8B, 8_030_261_248, {"attention": (8, 128, 128, 0)}, {"attention": 32}),
    "qwen2": (QWEN25_7B, 7_615_616_512, {"attention": (4, 128, 128, 0)}, {"attention": 28}),
    "qwen3_moe": (
        QWEN3_30B_A3B,
        30_532_122_624,
        {"attention+experts": (4, 128, 128, 0)},
        {"attention+experts": 48},
    ),
    "qwen3_next": (
        QWEN3_NEXT_80B,
        79_674_391_296,
        {
            "gated_delta_net+experts": (3 * 8192, 32 * 128 * 128),
            "attention+experts": (2, 256, 256, 0),
        },
        {"gated_delta_net+experts": 36, "attention+experts": 12},
    ),
    "gpt_oss": (
        GPT_OSS_20B,
        20_914_757_184,
        {
            "sliding_attention+experts": (8, 64, 64, 128),
            "attention+experts": (8, 64, 64, 0),
        },
        {"sliding_attention+experts": 12, "attention+experts": 12},
    ),
    "gemma3": (
        GEMMA3_27B,
        27_432_406_640,
        {"sliding_attention": (16, 128, 128, 1024), "attention": (16, 128, 128, 0)},
        {"sliding_attention": 52, "attention": 10},
    ),
    "mistral": (
        MISTRAL_7B,
        7_241_732_096,
        {"sliding_attention": (8, 128, 128, 4096)},
        {"sliding_attention": 32},
    ),
    "falcon_mamba": (FALCON_MAMBA, 7_272_665_088, {"mamba": (3 * 8192, 16 * 8192)}, {"mamba": 64}),
    "gpt2": (GPT2, 124_439_808, {"attention": (12, 64, 64, 0)}, {"attention": 12}),
    "olmo2": (OLMO2_7B, 7_298_617_344, {"attention": (32, 128, 128, 0)}, {"attention": 32}),
}


@pytest.mark.parametrize("family", EXACT)
def test_counts_and_caches_are_exact(family: str) -> None:
    config, parameters, kept, counts = EXACT[family]
    architecture = architecture_from_config(config)
    assert architecture.parameters == parameters
    assert caches(architecture) == kept
    assert architecture.layer_counts == counts


def test_deepseek_r1_loads_without_and_stores_with_its_prediction_layer() -> None:
    architecture = architecture_from_config(DEEPSEEK_R1)
    router_biases = 58 * 256
    assert architecture.parameters == 671_026_404_352 + router_biases
    assert architecture.stored_parameters == pytest.approx(684_489_845_504, rel=1e-6)
    assert caches(architecture)["latent_attention+experts"] == (1, 576, 0, 0)
    assert architecture.order[:4] == (*["latent_attention"] * 3, "latent_attention+experts")


def test_nemotron_follows_its_pattern_letter_by_letter() -> None:
    architecture = architecture_from_config(NEMOTRON_3_NANO)
    router_biases = 23 * 128
    assert architecture.parameters == 31_577_937_344 + router_biases
    letters = {"mamba2": "M", "experts": "E", "attention": "*"}
    pattern = "".join(letters[name] for name in architecture.order)
    assert pattern == NEMOTRON_3_NANO["hybrid_override_pattern"]


def test_sliding_layers_come_first_and_repeat_as_a_segment() -> None:
    text = architecture_from_config(GEMMA3_27B)
    assert text.order[:6] == (*["sliding_attention"] * 5, "attention")
    assert text.stack[0].repeat == 10
    assert len(text.stack) == 2


def test_llama4_leaves_each_fourth_layer_without_chunks() -> None:
    architecture = architecture_from_config(LLAMA4_SCOUT_TEXT)
    assert architecture.order[:4] == (*["sliding_attention+experts"] * 3, "attention+experts")
    assert caches(architecture)["sliding_attention+experts"] == (8, 128, 128, 8192)
    assert architecture.parameters == 108_225_039_360 - 455_178_240


def test_a_wider_vision_tower_is_an_extra() -> None:
    architecture = architecture_from_config(GEMMA3_27B)
    (encoder,) = (extra for extra in architecture.extras if extra.role == "encoder")
    assert encoder.parameters == 423_060_336


def test_an_encoder_keeps_no_cache() -> None:
    bert = {
        "model_type": "bert",
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "type_vocab_size": 2,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    }
    architecture = architecture_from_config(bert)
    assert architecture.parameters == 109_482_240
    assert caches(architecture) == {}


def test_whisper_keeps_the_encoder_frames_of_every_sequence() -> None:
    large_v3 = {
        "model_type": "whisper",
        "d_model": 1280,
        "encoder_layers": 32,
        "decoder_layers": 32,
        "decoder_attention_heads": 20,
        "encoder_ffn_dim": 5120,
        "decoder_ffn_dim": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "vocab_size": 51866,
    }
    architecture = architecture_from_config(large_v3)
    assert architecture.parameters == pytest.approx(1_543_490_560, rel=1e-3)
    (kept,) = architecture.layer_caches.values()
    (cross,) = (cache for cache in kept if isinstance(cache, StateCache))
    assert cross.recurrent_elements == 1500 * 20 * (64 + 64)


def test_a_bare_model_has_no_output_head() -> None:
    embedding = architecture_from_config({**LLAMA_31_8B, "architectures": ["LlamaModel"]})
    assert embedding.parameters == 8_030_261_248 - 128256 * 4096


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no model type": ({"hidden_size": 1}, "/model_type"),
    "unknown model type": ({**LLAMA_31_8B, "model_type": "rwkv9"}, "/model_type"),
    "remote code": (
        {**LLAMA_31_8B, "model_type": "own", "auto_map": {"AutoModel": "m.M"}},
        "/model_type",
    ),
    "missing field": (
        {key: value for key, value in LLAMA_31_8B.items() if key != "vocab_size"},
        "/vocab_size",
    ),
    "latent attention in a llama": ({**LLAMA_31_8B, "kv_lora_rank": 512}, "/kv_lora_rank"),
    "experts in a llama": ({**LLAMA_31_8B, "num_local_experts": 8}, "/num_local_experts"),
    "window in a llama": ({**LLAMA_31_8B, "sliding_window": 512}, "/sliding_window"),
    "unknown kind of layer": (
        {**GPT_OSS_20B, "layer_types": ["sliding_attention"] * 23 + ["spiral_attention"]},
        "/layer_types/23",
    ),
    "too few kinds of layers": (
        {**GPT_OSS_20B, "layer_types": ["full_attention"]},
        "/layer_types",
    ),
    "unknown vision tower": (
        {**GEMMA3_27B, "vision_config": {"model_type": "eyes"}},
        "/vision_config/model_type",
    ),
    "field inside the text part": (
        {**GEMMA3_27B, "text_config": {**GEMMA3_27B["text_config"], "index_topk": 3}},
        "/text_config/index_topk",
    ),
    "text for a number": ({**LLAMA_31_8B, "hidden_size": "4096"}, "/hidden_size"),
    "fraction for a number": ({**LLAMA_31_8B, "hidden_size": 4096.5}, "/hidden_size"),
    "truth for a number": ({**LLAMA_31_8B, "num_hidden_layers": True}, "/num_hidden_layers"),
    "number for truth": ({**LLAMA_31_8B, "tie_word_embeddings": 1}, "/tie_word_embeddings"),
    "list for an object": ({**GEMMA3_27B, "text_config": []}, "/text_config"),
    "heads that do not divide": ({**LLAMA_31_8B, "num_key_value_heads": 7}, "/num_key_value_heads"),
    "compressed attention": (
        {**DEEPSEEK_R1, "model_type": "deepseek_v4", "compress_ratios": [4]},
        "/model_type",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_understood_is_refused_by_field(case: str) -> None:
    config, pointer = REFUSED[case]
    with pytest.raises(UnknownArchitecture) as refused:
        architecture_from_config(config)
    assert refused.value.pointer == pointer


FORMATS: list[tuple[dict[str, Any], str]] = [
    (LLAMA_31_8B, "bf16"),
    ({"dtype": "float16"}, "fp16"),
    ({"torch_dtype": "float32"}, "fp32"),
    (GPT_OSS_20B, "mxfp4"),
    (DEEPSEEK_R1, "fp8-block"),
    ({"quantization_config": {"quant_method": "fp8"}}, "fp8"),
    ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bnb-nf4"),
    ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "bnb-int8"),
    ({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}}, "nvfp4"),
    ({"quantization_config": {"quant_algo": "FP8"}}, "fp8"),
]


def compressed(**weights: Any) -> dict[str, Any]:
    groups = {"group_0": {"targets": ["Linear"], "weights": weights}}
    return {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": groups}}


FORMATS += [
    (compressed(num_bits=4, type="int", strategy="group", group_size=32), "w4a16"),
    (compressed(num_bits=8, type="float", strategy="channel"), "fp8"),
    (compressed(num_bits=8, type="float", strategy="block"), "fp8-block"),
    (compressed(num_bits=8, type="int", strategy="channel"), "int8-w8a8"),
    (compressed(num_bits=4, type="float", group_size=16), "nvfp4"),
    (compressed(num_bits=4, type="float", group_size=32), "mxfp4"),
]


@pytest.mark.parametrize(("config", "expected"), FORMATS)
def test_the_checkpoint_format_is_read_from_the_quantization(
    config: dict[str, Any], expected: str
) -> None:
    assert checkpoint_format_from_config(config) == expected


@pytest.mark.parametrize(
    ("config", "pointer"),
    [
        ({"quantization_config": {"quant_method": "hqq"}}, "/quantization_config/quant_method"),
        (
            {"quantization_config": {"quant_method": "fp8", "quant_algo": "MIXED_PRECISION"}},
            "/quantization_config/quant_algo",
        ),
        ({"quantization_config": {"quant_method": "gptq", "bits": 3}}, "/quantization_config/bits"),
        ({"torch_dtype": "float8"}, "/torch_dtype"),
    ],
)
def test_an_unknown_quantization_is_refused_by_name(config: dict[str, Any], pointer: str) -> None:
    with pytest.raises(UnknownArchitecture) as refused:
        checkpoint_format_from_config(config)
    assert refused.value.pointer == pointer


SEEDS = [
    LLAMA_31_8B,
    QWEN25_7B,
    QWEN3_30B_A3B,
    QWEN3_NEXT_80B,
    GPT_OSS_20B,
    GEMMA3_27B,
    DEEPSEEK_R1,
    MISTRAL_7B,
    NEMOTRON_3_NANO,
    FALCON_MAMBA,
    GPT2,
    OLMO2_7B,
    LLAMA4_SCOUT_TEXT,
]
FIELD_NAMES = sorted(
    {name for seed in SEEDS for part in (seed, seed.get("text_config", {})) for name in part}
    | {"vision_config", "audio_config", "block_configs", "linear_attn_config", "attn_config"}
    | {"mlp_layer_types", "indexer_types", "cross_attention_layers", "attn_type_list", "d_model"}
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 6)
    | st.sampled_from([64, 128, 4096, 10**9, 10**12, -(10**30)])
    | st.floats(allow_nan=True)
    | st.sampled_from([*sorted(BUILDERS), "full_attention", "sliding_attention", "dense", "auto"])
    | st.text(max_size=4)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(FIELD_NAMES), inner, max_size=6)
    ),
    max_leaves=12,
)
ANYTHING = st.dictionaries(st.sampled_from(FIELD_NAMES) | st.text(max_size=4), VALUES, max_size=20)
MUTATED = st.builds(
    lambda seed, model_type, changes: {**seed, **model_type, **changes},
    st.sampled_from(SEEDS),
    st.just({}) | st.sampled_from(sorted(BUILDERS)).map(lambda name: {"model_type": name}),
    st.dictionaries(st.sampled_from(FIELD_NAMES), VALUES, max_size=3),
)


Answer = TypeVar("Answer")


def answer(ask: Callable[[], Answer]) -> Answer | None:
    """What was asked, or None where it was refused by a field."""
    try:
        return ask()
    except EngineError as problem:
        refused = problem
    assert refused.pointer.startswith("/")
    return None


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANYTHING | MUTATED)
def test_any_object_gives_a_sound_architecture_or_a_refusal(config: dict[str, Any]) -> None:
    architecture = answer(lambda: architecture_from_config(config))
    if architecture is None:
        return
    architecture.check()
    assert architecture.parameters > 0
    assert all(
        mixer.query_heads % mixer.key_value_heads == 0
        for layer in architecture.layers
        for mixer in layer.mixers
        if isinstance(mixer, Attention)
    )


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["quantization_config", "dtype", "text_config"]), VALUES))
def test_any_object_has_a_format_or_is_refused(config: dict[str, Any]) -> None:
    assert answer(lambda: checkpoint_format_from_config(config)) != ""
