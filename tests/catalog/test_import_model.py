"""Models from files: GGUF headers, configurations beside checkpoints, and what is refused.

Shapes are those of published models; counts are those of their published weights.
"""

import base64
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tonnage.catalog.importing.errors import TruncatedFile, UnreadableFile
from tonnage.catalog.importing.files import request_from_path
from tonnage.catalog.importing.gguf import Skipped, read_header
from tonnage.catalog.importing.records import import_model
from tonnage.catalog.importing.requests import ImportedModel, ImportModelRequest
from tonnage.catalog.importing.safetensors import read_gguf_header_bytes
from tonnage.catalog.importing.sizes import checkpoint_bytes
from tonnage.engine.attention import Attention, LatentAttention
from tonnage.engine.errors import Contradiction, EngineError, UnknownArchitecture

F32, F16, Q4_K, Q6_K, Q8_0, MXFP4 = 0, 1, 12, 14, 8, 39
Shapes = dict[str, tuple[tuple[int, ...], int]]


def text(value: str | bytes) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(encoded)) + encoded


def typed(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    kind = typed(value[0])[:4]
    items = b"".join(typed(one)[4:] for one in value)
    return struct.pack("<I", 9) + kind + struct.pack("<Q", len(value)) + items


def gguf(metadata: dict[str, Any], tensors: Shapes, version: int = 3) -> bytes:
    pairs = b"".join(text(key) + typed(value) for key, value in metadata.items())
    infos = b"".join(
        text(name)
        + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        + struct.pack("<IQ", kind, 0)
        for name, (shape, kind) in tensors.items()
    )
    counts = struct.pack("<IQQ", version, len(tensors), len(metadata))
    return b"GGUF" + counts + pairs + infos


def keys(architecture: str, **sizes: Any) -> dict[str, Any]:
    named = {f"{architecture}.{key.replace('__', '.')}": value for key, value in sizes.items()}
    return {"general.architecture": architecture, **named}


def blocks(count: int, parts: Shapes) -> Shapes:
    return {f"blk.{i}.{name}": what for i in range(count) for name, what in parts.items()}


def imported(header: bytes) -> ImportedModel:
    encoded = base64.b64encode(header).decode()
    return import_model(ImportModelRequest(id="owner/name", gguf_header=encoded))


LLAMA_31_8B = keys(
    "llama",
    block_count=32,
    context_length=131072,
    embedding_length=4096,
    feed_forward_length=14336,
    attention__head_count=32,
    attention__head_count_kv=8,
    rope__dimension_count=128,
    vocab_size=128256,
) | {
    "general.file_type": 15,
    "tokenizer.ggml.tokens": ["a", "bc", ""] * 1000,
    "tokenizer.ggml.scores": [0.5] * 5000,
    "tokenizer.chat_template": "x" * 10_000,
}


def llama_tensors(kind: int = Q4_K) -> Shapes:
    """Of the 32 blocks, half have ``attn_v`` and ``ffn_down`` in Q6_K (llama.cpp's Q4_K_M)."""
    tensors: Shapes = {
        "token_embd.weight": ((4096, 128256), kind),
        "output.weight": ((4096, 128256), Q6_K if kind == Q4_K else kind),
        "output_norm.weight": ((4096,), F32),
        "rope_freqs.weight": ((64,), F32),
    }
    for i in range(32):
        better = Q6_K if kind == Q4_K and i % 2 else kind
        tensors |= {
            f"blk.{i}.attn_norm.weight": ((4096,), F32),
            f"blk.{i}.ffn_norm.weight": ((4096,), F32),
            f"blk.{i}.attn_q.weight": ((4096, 4096), kind),
            f"blk.{i}.attn_k.weight": ((4096, 1024), kind),
            f"blk.{i}.attn_v.weight": ((4096, 1024), better),
            f"blk.{i}.attn_output.weight": ((4096, 4096), kind),
            f"blk.{i}.ffn_gate.weight": ((4096, 14336), kind),
            f"blk.{i}.ffn_up.weight": ((4096, 14336), kind),
            f"blk.{i}.ffn_down.weight": ((14336, 4096), better),
        }
    return tensors


LLAMA_HEADER = gguf(LLAMA_31_8B, llama_tensors())


def test_llama_is_counted_exactly() -> None:
    found = imported(LLAMA_HEADER)
    assert found.parameters == found.stored_parameters == 8_030_261_248
    assert found.record.published_parameters == 8_030_261_248
    assert found.record.checkpoint_format == "q4_k_m"
    assert found.record.active_parameters is None
    assert found.record.model_type == "llama"
    assert found.findings == []
    architecture = found.record.architecture
    assert architecture is not None
    assert not architecture.tied_embeddings
    assert architecture.order == ("attention",) * 32
    assert architecture.longest_context_tokens == 131072


def test_a_file_is_priced_by_the_types_that_its_tensors_have() -> None:
    record = imported(LLAMA_HEADER).record
    encoding, architecture = record.checkpoint_encoding, record.architecture
    assert encoding is not None
    assert architecture is not None
    assert encoding.bits("query") == 4.5
    assert encoding.bits("down") == pytest.approx((4.5 + 6.5625) / 2)
    assert encoding.bits("output_head") == 6.5625
    assert encoding.bits("norm") == 32
    stored = sum(tensor.bytes for tensor in read_header(LLAMA_HEADER).tensors)
    assert checkpoint_bytes(architecture, encoding) == pytest.approx(stored, rel=1e-6)


def test_a_file_that_is_another_mix_than_it_says() -> None:
    """The printed file type is not the mix: here Q8_0 in a file called Q4_K_M."""
    (finding,) = imported(gguf(LLAMA_31_8B, llama_tensors(Q8_0))).findings
    assert "q4_k_m" in finding
    assert "nearest format is q8_0" in finding


def test_without_a_file_type_most_elements_decide() -> None:
    metadata = {key: value for key, value in LLAMA_31_8B.items() if key != "general.file_type"}
    found = imported(gguf(metadata, llama_tensors(F16)))
    assert found.record.checkpoint_format == "gguf-f16"
    assert found.findings == []


def test_a_tensor_that_the_architecture_does_not_have_is_a_finding() -> None:
    more: Shapes = {"blk.0.surprise.weight": ((4096, 100_000), Q4_K)}
    (finding,) = imported(gguf(LLAMA_31_8B, llama_tensors() | more)).findings
    assert "of the tensors" in finding


def test_qwen2_has_biases_and_a_tied_head() -> None:
    """Qwen2.5-0.5B: 494,032,768 parameters."""
    metadata = keys(
        "qwen2",
        block_count=24,
        context_length=32768,
        embedding_length=896,
        feed_forward_length=4864,
        attention__head_count=14,
        attention__head_count_kv=2,
    )
    parts: Shapes = {
        "attn_norm.weight": ((896,), F32),
        "ffn_norm.weight": ((896,), F32),
        "attn_q.weight": ((896, 896), F16),
        "attn_q.bias": ((896,), F32),
        "attn_k.weight": ((896, 128), F16),
        "attn_k.bias": ((128,), F32),
        "attn_v.weight": ((896, 128), F16),
        "attn_v.bias": ((128,), F32),
        "attn_output.weight": ((896, 896), F16),
        "ffn_gate.weight": ((896, 4864), F16),
        "ffn_up.weight": ((896, 4864), F16),
        "ffn_down.weight": ((4864, 896), F16),
    }
    whole: Shapes = {
        "token_embd.weight": ((896, 151936), F16),
        "output_norm.weight": ((896,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(24, parts)))
    assert found.parameters == found.record.published_parameters == 494_032_768
    assert found.findings == []


def test_gemma3_has_windows_norms_and_wide_heads() -> None:
    """Gemma 3 1B: 999,885,952 parameters, each sixth layer without a window."""
    metadata = keys(
        "gemma3",
        block_count=26,
        context_length=32768,
        embedding_length=1152,
        feed_forward_length=6912,
        attention__head_count=4,
        attention__head_count_kv=1,
        attention__key_length=256,
        attention__value_length=256,
        attention__sliding_window=512,
    )
    parts: Shapes = {
        **{
            f"{name}.weight": ((1152,), F32)
            for name in ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm")
        },
        "attn_q_norm.weight": ((256,), F32),
        "attn_k_norm.weight": ((256,), F32),
        "attn_q.weight": ((1152, 1024), F16),
        "attn_k.weight": ((1152, 256), F16),
        "attn_v.weight": ((1152, 256), F16),
        "attn_output.weight": ((1024, 1152), F16),
        "ffn_gate.weight": ((1152, 6912), F16),
        "ffn_up.weight": ((1152, 6912), F16),
        "ffn_down.weight": ((6912, 1152), F16),
    }
    whole: Shapes = {
        "token_embd.weight": ((1152, 262144), F16),
        "output_norm.weight": ((1152,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(26, parts)))
    assert found.parameters == found.record.published_parameters == 999_885_952
    architecture = found.record.architecture
    assert architecture is not None
    assert architecture.order[4:7] == ("sliding_attention", "attention", "sliding_attention")


def test_gpt_oss_has_sinks_and_biased_experts() -> None:
    """gpt-oss-20b: 20,914,757,184 parameters, in MXFP4."""
    metadata = keys(
        "gpt-oss",
        block_count=24,
        context_length=131072,
        embedding_length=2880,
        feed_forward_length=2880,
        expert_feed_forward_length=2880,
        expert_count=32,
        expert_used_count=4,
        attention__head_count=64,
        attention__head_count_kv=8,
        attention__key_length=64,
        attention__value_length=64,
        attention__sliding_window=128,
    ) | {"general.file_type": 38}
    parts: Shapes = {
        "attn_norm.weight": ((2880,), F32),
        "post_attention_norm.weight": ((2880,), F32),
        "attn_sinks.weight": ((64,), F32),
        "attn_q.weight": ((2880, 4096), Q8_0),
        "attn_q.bias": ((4096,), F32),
        "attn_k.weight": ((2880, 512), Q8_0),
        "attn_k.bias": ((512,), F32),
        "attn_v.weight": ((2880, 512), Q8_0),
        "attn_v.bias": ((512,), F32),
        "attn_output.weight": ((4096, 2880), Q8_0),
        "attn_output.bias": ((2880,), F32),
        "ffn_gate_inp.weight": ((2880, 32), F32),
        "ffn_gate_inp.bias": ((32,), F32),
        **{
            f"ffn_{name}_exps.{what}": ((2880, *([2880] * (what == "weight")), 32), kind)
            for name in ("gate", "up", "down")
            for what, kind in (("weight", MXFP4), ("bias", F32))
        },
    }
    whole: Shapes = {
        "token_embd.weight": ((2880, 201088), Q8_0),
        "output.weight": ((2880, 201088), Q8_0),
        "output_norm.weight": ((2880,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(24, parts)))
    assert found.parameters == found.record.published_parameters == 20_914_757_184
    assert found.record.checkpoint_format == "gguf-mxfp4"
    assert found.findings == []
    assert found.record.active_parameters is not None
    assert found.record.active_parameters < found.parameters / 4


def deepseek_v2_lite(**more: int) -> bytes:
    metadata = keys(
        "deepseek2",
        block_count=27,
        context_length=163840,
        embedding_length=2048,
        feed_forward_length=10944,
        expert_feed_forward_length=1408,
        expert_count=64,
        expert_used_count=6,
        expert_shared_count=2,
        leading_dense_block_count=1,
        attention__head_count=16,
        attention__head_count_kv=16,
        attention__key_length=192,
        attention__value_length=128,
        attention__kv_lora_rank=512,
        rope__dimension_count=64,
        **more,
    )
    every: Shapes = {
        "attn_norm.weight": ((2048,), F32),
        "ffn_norm.weight": ((2048,), F32),
        "attn_kv_a_norm.weight": ((512,), F32),
        "attn_q.weight": ((2048, 3072), F16),
        "attn_kv_a_mqa.weight": ((2048, 576), F16),
        "attn_kv_b.weight": ((512, 4096), F16),
        "attn_output.weight": ((2048, 2048), F16),
    }
    tensors: Shapes = {
        "token_embd.weight": ((2048, 102400), F16),
        "output.weight": ((2048, 102400), F16),
        "output_norm.weight": ((2048,), F32),
        **blocks(27, every),
        "blk.0.ffn_gate.weight": ((2048, 10944), F16),
        "blk.0.ffn_up.weight": ((2048, 10944), F16),
        "blk.0.ffn_down.weight": ((10944, 2048), F16),
    }
    routed: Shapes = {"ffn_gate_inp.weight": ((2048, 64), F32)}
    for name in ("gate", "up", "down"):
        routed[f"ffn_{name}_exps.weight"] = ((2048, 1408, 64), F16)
        routed[f"ffn_{name}_shexp.weight"] = ((2048, 2816), F16)
    tensors |= {f"blk.{i}.{name}": what for i in range(1, 27) for name, what in routed.items()}
    return gguf(metadata, tensors)


def test_deepseek_has_latent_attention() -> None:
    """DeepSeek-V2-Lite: 15,706,484,224 parameters. Old files keep every head's keys and values."""
    found = imported(deepseek_v2_lite())
    assert found.parameters == found.record.published_parameters == 15_706_484_224
    architecture = found.record.architecture
    assert architecture is not None
    (mixer,) = architecture.layers[0].mixers
    assert isinstance(mixer, LatentAttention)
    assert "convert the model again" in found.findings[0]
    newer = {"attention__key_length_mla": 192, "attention__value_length_mla": 128}
    assert imported(deepseek_v2_lite(**newer)).findings == []


def test_qwen3_next_has_states_in_three_of_four_layers() -> None:
    """Qwen3-Next-80B-A3B without its prediction layer: 79,674,391,296 parameters."""
    width = 2048
    metadata = keys(
        "qwen3next",
        block_count=48,
        context_length=262144,
        embedding_length=width,
        feed_forward_length=5120,
        expert_feed_forward_length=512,
        expert_shared_feed_forward_length=512,
        expert_count=512,
        expert_used_count=10,
        attention__head_count=16,
        attention__head_count_kv=2,
        attention__key_length=256,
        attention__value_length=256,
        ssm__conv_kernel=4,
        ssm__state_size=128,
        ssm__group_count=16,
        ssm__time_step_rank=32,
        ssm__inner_size=4096,
    )
    every: Shapes = {
        "attn_norm.weight": ((width,), F32),
        "post_attention_norm.weight": ((width,), F32),
        "ffn_gate_inp.weight": ((width, 512), F32),
        "ffn_gate_inp_shexp.weight": ((width,), F32),
        **{f"ffn_{n}_exps.weight": ((width, 512, 512), F16) for n in ("gate", "up", "down")},
        **{f"ffn_{n}_shexp.weight": ((width, 512), F16) for n in ("gate", "up", "down")},
    }
    state: Shapes = {
        "attn_qkv.weight": ((width, 8192), F16),
        "attn_gate.weight": ((width, 4096), F16),
        "ssm_ba.weight": ((width, 64), F16),
        "ssm_conv1d.weight": ((4, 8192), F32),
        "ssm_a": ((32,), F32),
        "ssm_dt.bias": ((32,), F32),
        "ssm_norm.weight": ((128,), F32),
        "ssm_out.weight": ((4096, width), F16),
    }
    softmax: Shapes = {
        "attn_q.weight": ((width, 8192), F16),
        "attn_k.weight": ((width, 512), F16),
        "attn_v.weight": ((width, 512), F16),
        "attn_q_norm.weight": ((256,), F32),
        "attn_k_norm.weight": ((256,), F32),
        "attn_output.weight": ((4096, width), F16),
    }
    tensors: Shapes = {
        "token_embd.weight": ((width, 151936), F16),
        "output.weight": ((width, 151936), F16),
        "output_norm.weight": ((width,), F32),
        **blocks(48, every),
    }
    for i in range(48):
        parts = state if (i + 1) % 4 else softmax
        tensors |= {f"blk.{i}.{name}": what for name, what in parts.items()}
    found = imported(gguf(metadata, tensors))
    assert found.parameters == found.record.published_parameters == 79_674_391_296
    assert found.findings == []


def test_mixtral_is_a_llama_with_experts_and_its_old_files_have_one_tensor_an_expert() -> None:
    """Mixtral 8x7B: 46,702,792,704 parameters."""
    metadata = keys(
        "llama",
        block_count=32,
        context_length=32768,
        embedding_length=4096,
        feed_forward_length=14336,
        expert_count=8,
        expert_used_count=2,
        attention__head_count=32,
        attention__head_count_kv=[8] * 32,
    )
    parts: Shapes = {
        "attn_norm.weight": ((4096,), F32),
        "ffn_norm.weight": ((4096,), F32),
        "attn_q.weight": ((4096, 4096), F16),
        "attn_k.weight": ((4096, 1024), F16),
        "attn_v.weight": ((4096, 1024), F16),
        "attn_output.weight": ((4096, 4096), F16),
        "ffn_gate_inp.weight": ((4096, 8), F32),
        **{
            f"ffn_{name}.{expert}.weight": ((4096, 14336), F16)
            for name in ("gate", "up", "down")
            for expert in range(8)
        },
    }
    whole: Shapes = {
        "token_embd.weight": ((4096, 32000), F16),
        "output.weight": ((4096, 32000), F16),
        "output_norm.weight": ((4096,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(32, parts)))
    assert found.parameters == found.record.published_parameters == 46_702_792_704


def test_falcon_has_two_norms_with_biases_and_no_gate() -> None:
    """Falcon 7B (one norm): 6,921,720,704 parameters with its head tied."""
    metadata = keys(
        "falcon",
        block_count=32,
        context_length=2048,
        embedding_length=4544,
        feed_forward_length=18176,
        attention__head_count=71,
        attention__head_count_kv=1,
    )
    parts: Shapes = {
        "attn_norm.weight": ((4544,), F32),
        "attn_norm.bias": ((4544,), F32),
        "attn_qkv.weight": ((4544, 4672), F16),
        "attn_output.weight": ((4544, 4544), F16),
        "ffn_up.weight": ((4544, 18176), F16),
        "ffn_down.weight": ((18176, 4544), F16),
    }
    whole: Shapes = {
        "token_embd.weight": ((4544, 65024), F16),
        "output_norm.weight": ((4544,), F32),
        "output_norm.bias": ((4544,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(32, parts)))
    assert found.parameters == found.record.published_parameters == 6_921_720_704


def test_phi3_has_a_fused_gate_and_no_window_in_llama_cpp() -> None:
    """Phi-3 mini 4k: 3,821,079,552 parameters."""
    metadata = keys(
        "phi3",
        block_count=32,
        context_length=4096,
        embedding_length=3072,
        feed_forward_length=8192,
        attention__head_count=32,
        attention__head_count_kv=32,
        attention__sliding_window=2047,
    )
    parts: Shapes = {
        "attn_norm.weight": ((3072,), F32),
        "ffn_norm.weight": ((3072,), F32),
        "attn_qkv.weight": ((3072, 9216), F16),
        "attn_output.weight": ((3072, 3072), F16),
        "ffn_up.weight": ((3072, 16384), F16),
        "ffn_down.weight": ((8192, 3072), F16),
    }
    whole: Shapes = {
        "token_embd.weight": ((3072, 32064), F16),
        "output.weight": ((3072, 32064), F16),
        "output_norm.weight": ((3072,), F32),
    }
    found = imported(gguf(metadata, whole | blocks(32, parts)))
    assert found.parameters == found.record.published_parameters == 3_821_079_552
    architecture = found.record.architecture
    assert architecture is not None
    (mixer,) = architecture.layers[0].mixers
    assert isinstance(mixer, Attention)
    assert mixer.window_tokens is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "rwkv7"}, "general.architecture"),
        ({"general.architecture": 3}, "general.architecture"),
        ({"llama.block_count": 0}, "llama.block_count"),
        ({"llama.embedding_length": "wide"}, "llama.embedding_length"),
        ({"llama.attention.head_count_kv": [8, 4] * 16}, "llama.attention.head_count_kv"),
        ({"llama.attention.head_count_kv": 7}, "llama.attention.head_count_kv"),
        ({"llama.attention.value_length": 64}, "llama.attention.value_length"),
        ({"llama.expert_count": 8}, "llama.expert_used_count"),
        ({"llama.ssm.state_size": 128}, "llama.ssm.state_size"),
        ({"llama.nextn_predict_layers": 1}, "llama.nextn_predict_layers"),
        ({"split.count": 3}, "split.count"),
        ({"llama.block_count": 3000}, "llama.block_count"),
    ],
)
def test_an_unknown_architecture_is_refused_by_key(change: dict[str, Any], named: str) -> None:
    with pytest.raises(UnknownArchitecture, match=f"`{named}`") as refused:
        imported(gguf(LLAMA_31_8B | change, llama_tensors()))
    assert refused.value.pointer == "/gguf_header"


def test_sizes_that_multiply_to_more_than_a_record_holds() -> None:
    sizes = {"llama.embedding_length": 10**7, "llama.block_count": 2000}
    with pytest.raises(UnknownArchitecture, match="the sizes"):
        imported(gguf(LLAMA_31_8B | sizes, llama_tensors()))
    config = SMOL | {"hidden_size": 9 * 10**5, "num_hidden_layers": 2000}
    with pytest.raises(UnknownArchitecture, match="the sizes") as refused:
        from_config(config=config)
    assert refused.value.pointer == "/config"


def test_a_missing_key_is_named() -> None:
    metadata = {k: v for k, v in LLAMA_31_8B.items() if k != "llama.feed_forward_length"}
    with pytest.raises(UnknownArchitecture, match=r"`llama.feed_forward_length` is missing"):
        imported(gguf(metadata, llama_tensors()))


ONE_PAIR = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text("key")
ONE_TENSOR = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text("name")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "goes on"),
        (b"GGML" + bytes(40), "do not start with GGUF"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "metadata pairs"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "a name is"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + text(b"\xff"), "UTF-8"),
        (ONE_PAIR + struct.pack("<I", 13), "type 13"),
        (ONE_PAIR + struct.pack("<IIQ", 9, 77, 1), "type 77"),
        (ONE_PAIR + struct.pack("<IIQ", 9, 8, 2**62), "goes on"),
        (ONE_PAIR + struct.pack("<IIQ", 9, 10, 2**62), "goes on"),
        (ONE_PAIR + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 10, "nested"),
        (gguf({"key": 1}, {}).replace(struct.pack("<IQQ", 3, 0, 1), struct.pack("<IQQ", 3, 0, 2))
         + text("key") + typed(1), "twice"),
        (ONE_TENSOR + struct.pack("<I", 0), "0 dimensions"),
        (ONE_TENSOR + struct.pack("<I", 9), "9 dimensions"),
        (ONE_TENSOR + struct.pack("<IQQIQ", 2, 2**60, 2**60, 0, 0), "elements"),
        (ONE_TENSOR + struct.pack("<IQIQ", 1, 0, 0, 0), "elements"),
        (ONE_TENSOR + struct.pack("<IQIQ", 1, 32, 4, 0), "type 4"),
        (ONE_TENSOR + struct.pack("<IQIQ", 1, 100, Q4_K, 0), "blocks of 256"),
    ],
)  # fmt: skip
def test_an_unreadable_header_says_why(data: bytes, says: str) -> None:
    with pytest.raises(UnreadableFile, match=says) as refused:
        read_header(data)
    assert refused.value.code == "unreadable_file"
    assert refused.value.pointer == "/gguf_header"


def test_the_same_tensor_twice() -> None:
    info = text("name") + struct.pack("<IQIQ", 1, 32, 0, 0)
    with pytest.raises(UnreadableFile, match="twice"):
        read_header(b"GGUF" + struct.pack("<IQQ", 3, 2, 0) + info + info)


def test_long_values_are_stepped_over_and_short_ones_kept() -> None:
    metadata = read_header(LLAMA_HEADER + b"weights").metadata
    assert metadata["tokenizer.ggml.tokens"] == Skipped(3000)
    assert metadata["tokenizer.ggml.scores"] == Skipped(5000)
    assert metadata["tokenizer.chat_template"] == Skipped(10_000)
    assert metadata["llama.block_count"] == 32
    assert read_header(LLAMA_HEADER + b"weights").size == len(LLAMA_HEADER)


def test_version_2_is_read_too() -> None:
    assert imported(gguf(LLAMA_31_8B, llama_tensors(), version=2)).parameters == 8_030_261_248


SMALL = gguf(
    keys("llama", block_count=1, context_length=64, embedding_length=32, feed_forward_length=64)
    | {"llama.attention.head_count": [4, 4], "tokenizer.ggml.tokens": ["a", "b"], "x": 0.5},
    {
        "token_embd.weight": ((32, 10), F32),
        "blk.0.attn_norm.weight": ((32,), F32),
        "blk.0.ffn_gate.weight": ((32, 64), Q8_0),
    },
)


def pointer_of_refusal(**request: Any) -> str | None:
    """None where the request is understood; any other exception fails the test."""
    try:
        import_model(ImportModelRequest(id="a", **request))
    except EngineError as problem:
        return problem.pointer
    return None


def refused_or_read(data: bytes) -> None:
    encoded = base64.b64encode(data).decode() or "="
    assert pointer_of_refusal(gguf_header=encoded) in (None, "/gguf_header")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.sampled_from([b"", SMALL[:24], SMALL[:60]]))
def test_any_bytes_are_read_or_refused(data: bytes, start: bytes) -> None:
    refused_or_read(start + data)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_mutated_header_is_read_or_refused(data: st.DataObject) -> None:
    changed = bytearray(SMALL)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, len(changed) - 1))
        value = data.draw(st.one_of(st.binary(min_size=1, max_size=1), st.just(b"\xff" * 8)))
        changed[place : place + len(value)] = value
    refused_or_read(bytes(changed))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(SMALL) - 1))
def test_a_header_cut_short_is_truncated(length: int) -> None:
    with pytest.raises(TruncatedFile):
        read_header(SMALL[:length])


SMOL: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
SMOL_PARAMETERS = 134_515_008
"""SmolLM2-135M."""


def smol_header(form: Callable[[str, list[int]], dict[str, Any]]) -> dict[str, Any]:
    matrices = {
        "self_attn.q_proj": [576, 576],
        "self_attn.k_proj": [192, 576],
        "self_attn.v_proj": [192, 576],
        "self_attn.o_proj": [576, 576],
        "mlp.gate_proj": [1536, 576],
        "mlp.up_proj": [1536, 576],
        "mlp.down_proj": [576, 1536],
    }
    header: dict[str, Any] = {
        "__metadata__": {"format": "pt"},
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [49152, 576]},
        "model.norm.weight": {"dtype": "BF16", "shape": [576]},
    }
    for i in range(30):
        for norm in ("input_layernorm", "post_attention_layernorm"):
            header[f"model.layers.{i}.{norm}.weight"] = {"dtype": "BF16", "shape": [576]}
        for name, shape in matrices.items():
            header |= form(f"model.layers.{i}.{name}", shape)
    return header


def plain(name: str, shape: list[int]) -> dict[str, Any]:
    return {f"{name}.weight": {"dtype": "BF16", "shape": shape}}


def awq(name: str, shape: list[int]) -> dict[str, Any]:
    rows, columns = shape
    return {
        f"{name}.qweight": {"dtype": "I32", "shape": [columns, rows // 8]},
        f"{name}.qzeros": {"dtype": "I32", "shape": [columns // 64, rows // 8]},
        f"{name}.scales": {"dtype": "F16", "shape": [columns // 64, rows]},
    }


def compressed(name: str, shape: list[int]) -> dict[str, Any]:
    rows, columns = shape
    return {
        f"{name}.weight_packed": {"dtype": "I32", "shape": [rows, columns // 8]},
        f"{name}.weight_scale": {"dtype": "BF16", "shape": [rows, columns // 64]},
        f"{name}.weight_shape": {"dtype": "I64", "shape": [2]},
    }


def fp8(name: str, shape: list[int]) -> dict[str, Any]:
    return {
        f"{name}.weight": {"dtype": "F8_E4M3", "shape": shape},
        f"{name}.weight_scale_inv": {"dtype": "F32", "shape": [shape[0] // 64, shape[1] // 64]},
    }


def nvfp4(name: str, shape: list[int]) -> dict[str, Any]:
    rows, columns = shape
    return {
        f"{name}.weight": {"dtype": "U8", "shape": [rows, columns // 2]},
        f"{name}.weight_scale": {"dtype": "F8_E4M3", "shape": [rows, columns // 16]},
        f"{name}.weight_scale_2": {"dtype": "F32", "shape": []},
        f"{name}.input_scale": {"dtype": "F32", "shape": []},
    }


PACKED_4 = {"weights": {"num_bits": 4, "type": "int"}}


@pytest.mark.parametrize(
    ("form", "scheme"),
    [
        (plain, None),
        (awq, {"quant_method": "awq", "bits": 4}),
        (
            compressed,
            {"quant_method": "compressed-tensors", "config_groups": {"group_0": PACKED_4}},
        ),
        (fp8, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
        (nvfp4, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    ],
)
def test_packed_weights_are_counted_as_parameters(
    form: Callable[[str, list[int]], dict[str, Any]], scheme: dict[str, Any] | None
) -> None:
    config = SMOL | ({"quantization_config": scheme} if scheme else {})
    header = smol_header(form)
    found = import_model(ImportModelRequest(id="o/n", config=config, safetensors_header=header))
    assert found.parameters == found.record.published_parameters == SMOL_PARAMETERS
    assert [f for f in found.findings if "bytes" not in f] == []


def from_config(**request: Any) -> ImportedModel:
    return import_model(ImportModelRequest(**({"id": "o/n", "config": SMOL} | request)))


def test_the_index_agrees() -> None:
    found = from_config(safetensors_index={"metadata": {"total_size": 2 * SMOL_PARAMETERS}})
    assert found.findings == []
    assert found.record.published_parameters == SMOL_PARAMETERS
    assert (found.record.name, found.record.vendor) == ("n", "o")
    assert (found.record.family, found.record.type) == ("llama", "decoder")
    assert found.record.checkpoint_format == "bf16"


def test_the_index_disagrees() -> None:
    found = from_config(safetensors_index={"metadata": {"total_size": 4 * SMOL_PARAMETERS}})
    assert len(found.findings) == 1
    assert "-50.0%" in found.findings[0]


def test_embeddings_tied_the_wrong_way_are_named() -> None:
    config = SMOL | {"tie_word_embeddings": False}
    found = from_config(config=config, safetensors_header=smol_header(plain))
    assert "tied the other way" in found.findings[1]


def test_a_tied_head_that_is_stored_is_counted_once() -> None:
    header = smol_header(plain) | {"lm_head.weight": {"dtype": "BF16", "shape": [49152, 576]}}
    found = from_config(safetensors_header=header)
    assert found.record.published_parameters == SMOL_PARAMETERS
    assert len(found.findings) == 1
    assert "ties" in found.findings[0]


def test_a_file_in_another_dtype_than_the_configuration_says() -> None:
    header = {
        name: value | {"dtype": "F32"} if name != "__metadata__" else value
        for name, value in smol_header(plain).items()
    }
    (finding,) = from_config(safetensors_header=header).findings
    assert "bytes" in finding


def test_whole_numbers_that_nothing_explains_are_named() -> None:
    header = smol_header(plain) | {"odd.table": {"dtype": "I64", "shape": [10]}}
    (finding,) = from_config(safetensors_header=header).findings
    assert "odd.table" in finding


def test_the_header_of_one_part_does_not_stand_for_all() -> None:
    names = dict.fromkeys(smol_header(plain), "model-00001-of-00002.safetensors")
    del names["__metadata__"]
    index = {"weight_map": names, "metadata": {"total_size": 2 * SMOL_PARAMETERS}}
    part = {"model.norm.weight": {"dtype": "BF16", "shape": [576]}}
    found = from_config(safetensors_index=index, safetensors_header=part)
    assert found.record.published_parameters == SMOL_PARAMETERS
    assert found.findings == []


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ({"config": None}, "/config"),
        ({"gguf_header": "R0dVRg=="}, "/gguf_header"),
        (
            {"config": None, "gguf_header": "R0dVRg==", "safetensors_index": {}},
            "/safetensors_index",
        ),
    ],
)
def test_what_excludes_each_other(request_: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Contradiction) as refused:
        from_config(**request_)
    assert refused.value.pointer == pointer


def test_the_pointer_leads_into_the_configuration() -> None:
    with pytest.raises(UnknownArchitecture) as refused:
        from_config(config=SMOL | {"hidden_size": "wide"})
    assert refused.value.pointer == "/config/hidden_size"


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ({"safetensors_header": {"a/b": 1}}, "/safetensors_header/a~1b"),
        ({"safetensors_header": {"a": {"dtype": "F31"}}}, "/safetensors_header/a/dtype"),
        (
            {"safetensors_header": {"a": {"dtype": "F32", "shape": 3}}},
            "/safetensors_header/a/shape",
        ),
        (
            {"safetensors_header": {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}},
            "/safetensors_header/a/data_offsets",
        ),
        ({"safetensors_index": {"weight_map": []}}, "/safetensors_index/weight_map"),
        (
            {"safetensors_index": {"metadata": {"total_size": "big"}}},
            "/safetensors_index/metadata/total_size",
        ),
        ({"config": None, "gguf_header": "not base64!"}, "/gguf_header"),
        ({"config": None, "gguf_header": "ä"}, "/gguf_header"),
    ],
)
def test_what_is_unreadable_is_pointed_to(request_: dict[str, Any], pointer: str) -> None:
    with pytest.raises(UnreadableFile) as refused:
        from_config(**request_)
    assert refused.value.pointer == pointer


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
TENSOR = st.fixed_dictionaries(
    {},
    optional={"dtype": st.sampled_from(["F32", "U8", "x"]) | JSON, "shape": JSON,
              "data_offsets": JSON},
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.text(max_size=20), TENSOR | JSON, max_size=4),
    st.fixed_dictionaries({}, optional={"metadata": JSON, "weight_map": JSON}),
)
def test_any_header_and_index_are_read_or_refused(
    header: dict[str, Any], index: dict[str, Any]
) -> None:
    pointer = pointer_of_refusal(config=SMOL, safetensors_header=header, safetensors_index=index)
    assert pointer is None or pointer.startswith(("/safetensors_header", "/safetensors_index"))


def safetensors_file(header: dict[str, Any]) -> bytes:
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + b"weights"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "SmolLM2 135M"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(SMOL))
    return folder


def test_a_folder_with_weights_in_two_files(folder: Path) -> None:
    header = smol_header(plain)
    names = sorted(header)
    for number, part in enumerate((names[:100], names[100:]), start=1):
        file = folder / f"model-0000{number}-of-00002.safetensors"
        file.write_bytes(safetensors_file({name: header[name] for name in part}))
    index = {"metadata": {"total_size": 2 * SMOL_PARAMETERS}, "weight_map": {}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    request = request_from_path(folder)
    assert request.id == "SmolLM2-135M"
    found = import_model(request)
    assert found.record.published_parameters == SMOL_PARAMETERS
    assert found.findings == []


def test_a_configuration_alone(folder: Path) -> None:
    request = request_from_path(folder / "config.json", "owner/smol")
    assert (request.id, request.config) == ("owner/smol", SMOL)
    assert request.safetensors_header is None


def test_a_gguf_file_is_read_in_growing_chunks_and_sent_without_its_tokenizer(
    tmp_path: Path,
) -> None:
    tokens = {"tokenizer.ggml.tokens": ["token" * 10] * 40_000}
    data = gguf(LLAMA_31_8B | tokens, llama_tensors())
    path = tmp_path / "llama.Q4_K_M.gguf"
    path.write_bytes(data + bytes(2**20))
    assert len(data) > 2**21
    assert read_gguf_header_bytes(path) == data
    request = request_from_path(path)
    assert request.id == "llama.Q4_K_M"
    assert request.gguf_header is not None
    assert len(request.gguf_header) < 50_000
    found = import_model(request)
    assert found == import_model(
        ImportModelRequest(id=request.id, gguf_header=base64.b64encode(data).decode())
    )


def test_a_split_gguf_file_is_put_together(tmp_path: Path) -> None:
    tensors = list(llama_tensors().items())
    split = {"split.count": 2, "split.tensors.count": len(tensors)}
    first = tmp_path / "llama-00001-of-00002.gguf"
    second = tmp_path / "llama-00002-of-00002.gguf"
    first.write_bytes(gguf(LLAMA_31_8B | split, dict(tensors[:100])))
    with pytest.raises(UnreadableFile, match="1 of the 2 parts"):
        request_from_path(first)
    second.write_bytes(gguf(split, dict(tensors[100:])))
    request = request_from_path(second)
    assert request.id == "llama"
    assert import_model(request).record.published_parameters == 8_030_261_248
    second.write_bytes(gguf(split, dict(tensors[101:])))
    with pytest.raises(UnreadableFile, match="say that there are"):
        request_from_path(first)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"not JSON"),
        ("config.json", b"[]"),
        ("config.json", b"[" * 100_000),
        ("model.gguf", b"not GGUF at all, and long enough"),
        ("model.gguf", b"GGUF"),
        ("missing/config.json", None),
        ("missing/model.gguf", None),
    ],
)
def test_files_that_can_not_be_read(tmp_path: Path, name: str, content: bytes | None) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UnreadableFile) as refused:
        request_from_path(path)
    assert str(path) in refused.value.message


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, (9).to_bytes(8, "little") + b"not JSON", b"\2" + bytes(7) + b"[]"])  # fmt: skip  # noqa: E501
def test_a_file_that_is_no_safetensors(folder: Path, data: bytes) -> None:
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(UnreadableFile):
        request_from_path(folder)


def test_an_id_that_can_not_be_one(folder: Path) -> None:
    with pytest.raises(Contradiction) as refused:
        request_from_path(folder, "not an id")
    assert refused.value.pointer == "/id"
