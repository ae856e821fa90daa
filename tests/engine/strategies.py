"""Generated questions: architectures of every kind of layer, devices, layouts and workloads."""

from functools import cache

import msgspec
from hypothesis import strategies as st

from tonnage.catalog.kinds import RuntimeRecord
from tonnage.catalog.seed import seed_release
from tonnage.engine.attention import Attention, LatentAttention, SparseIndex
from tonnage.engine.case import InferenceCase, NamedCache, NamedWeights
from tonnage.engine.eras import Era, LlamaCppEra, VllmEra
from tonnage.engine.feed_forward import Dense, MixtureOfExperts
from tonnage.engine.flags import (
    ExllamaFlags,
    Flags,
    LlamaCppFlags,
    MlxFlags,
    OllamaFlags,
    SglangFlags,
    TensorRtLlmFlags,
    TgiFlags,
    TransformersFlags,
    VllmFlags,
)
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.memory.weights import stages
from tonnage.engine.model import FeedForward, Layer, Mixer, ModelArchitecture, Segment
from tonnage.engine.modules import Extra
from tonnage.engine.precision import CacheEncoding, RoleBits, WeightEncoding
from tonnage.engine.runtime import Accounting, Runtime
from tonnage.engine.state_space import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    ShortConvolution,
)
from tonnage.engine.values import GIB, MIB
from tonnage.engine.workload import InferenceWorkload, Parallelism

FP32, FP16 = WeightEncoding(bits_per_weight=32), WeightEncoding(bits_per_weight=16)
FP8 = WeightEncoding(
    bits_per_weight=8, except_roles=RoleBits(embedding=16, output_head=16, norm=16)
)
INT4 = WeightEncoding(
    bits_per_weight=4.15625,
    except_roles=RoleBits(embedding=16, output_head=16, tied_embedding=16, norm=16, router=16),
    group_size=128,
)
MIXED = WeightEncoding(
    bits_per_weight=4.5, except_roles=RoleBits(norm=32, output_head=6.5625, tied_embedding=6.5625)
)

weight_encodings = st.sampled_from([FP32, FP16, FP8, INT4, MIXED])
cache_bits = st.sampled_from([16, 8, 8.5, 4.5])


@cache
def runtime(name: Accounting) -> Runtime:
    """A runtime as the seed catalog describes it."""
    release = seed_release()
    record = release.records["runtimes"]["exllamav2" if name == "exllama" else name]
    assert isinstance(record, RuntimeRecord)
    return release.runtime(record)


@st.composite
def attentions(draw: st.DrawFn, query_heads: int, *, everything: bool = True) -> Attention:
    heads = draw(st.sampled_from([n for n in (1, 2, 4, 8) if query_heads % n == 0]))
    return Attention(
        query_heads=query_heads,
        key_value_heads=heads,
        head_dim=draw(st.sampled_from([32, 64, 80, 128])),
        value_head_dim=draw(st.sampled_from([None, 64])),
        window_tokens=draw(st.sampled_from([None, 1, 128, 1000, 4096])),
        query_key_value_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        query_key_norm=draw(st.booleans()),
        query_key_norm_wide=draw(st.booleans()),
        output_gate=draw(st.booleans()),
        value_from_key=draw(st.booleans()),
        encoder_tokens=draw(st.sampled_from([None, None, None, 1500])) if everything else None,
    )


@st.composite
def latent_attentions(draw: st.DrawFn, query_heads: int) -> LatentAttention:
    indexes = st.builds(
        SparseIndex,
        heads=st.integers(1, 8),
        head_dim=st.sampled_from([64, 128, 200]),
        selected_tokens=st.just(512),
    )
    return LatentAttention(
        query_heads=query_heads,
        query_lora_rank=draw(st.sampled_from([None, 96, 256])),
        key_value_lora_rank=draw(st.sampled_from([64, 256, 512])),
        no_position_head_dim=draw(st.sampled_from([32, 128])),
        position_head_dim=draw(st.sampled_from([0, 32, 64])),
        value_head_dim=draw(st.sampled_from([64, 128])),
        index=draw(st.none() | indexes),
    )


def _small(*amounts: int) -> st.SearchStrategy[int]:
    return st.sampled_from(amounts)


state_mixers: st.SearchStrategy[Mixer] = st.one_of(
    st.builds(
        GatedDeltaNet,
        key_heads=_small(1, 4, 16),
        value_heads=_small(4, 32),
        key_head_dim=_small(64, 128),
        value_head_dim=_small(64, 128),
    ),
    st.builds(KimiDeltaAttention, heads=_small(2, 16), head_dim=_small(64, 128)),
    st.builds(
        Mamba2,
        heads=_small(2, 16),
        head_dim=_small(64, 128),
        state_size=_small(16, 128),
        groups=_small(1, 2, 8),
        state_bits=_small(16, 32),
    ),
    st.builds(
        Mamba,
        inner_size=_small(256, 1000),
        state_size=_small(16, 64),
        time_step_rank=_small(16, 64),
        inner_norms=st.booleans(),
    ),
    st.builds(LightningAttention, heads=_small(2, 16), head_dim=_small(64, 96)),
    st.builds(ShortConvolution, convolution_width=_small(2, 3, 4)),
)


@st.composite
def feed_forwards(draw: st.DrawFn) -> FeedForward:
    width = draw(st.sampled_from([64, 300, 1024, 2816]))
    if draw(st.booleans()):
        return Dense(intermediate_size=width, gated=draw(st.booleans()), bias=draw(st.booleans()))
    return MixtureOfExperts(
        experts=draw(st.sampled_from([8, 16, 64])),
        experts_per_token=draw(st.integers(1, 8)),
        intermediate_size=width,
        expert_hidden_size=draw(st.sampled_from([None, None, 128])),
        shared_intermediate_size=draw(st.sampled_from([0, 256])),
        shared_gate=draw(st.booleans()),
        gated=draw(st.booleans()),
        expert_bias=draw(st.booleans()),
        router_bias=draw(st.booleans()),
    )


@st.composite
def layers(draw: st.DrawFn, name: str, query_heads: int) -> Layer:
    mixer: st.SearchStrategy[Mixer] = st.one_of(
        attentions(query_heads), latent_attentions(query_heads), state_mixers
    )
    mixers = draw(st.lists(mixer, min_size=0, max_size=2))
    parts = draw(st.lists(feed_forwards(), min_size=0 if mixers else 1, max_size=2))
    return Layer(
        name=name,
        mixers=tuple(mixers),
        feed_forward=tuple(parts),
        norms=draw(st.integers(0, 4)),
    )


@st.composite
def architectures(draw: st.DrawFn) -> ModelArchitecture:
    """Dense, mixture of experts, latent, sliding and state space layers in any mix."""
    query_heads = draw(st.sampled_from([4, 8, 16, 24]))
    names = [f"kind-{index}" for index in range(draw(st.integers(1, 3)))]
    first = draw(layers(names[0], query_heads))
    if not first.mixers:
        mixer = draw(attentions(query_heads, everything=False))
        first = msgspec.structs.replace(first, mixers=(mixer,))
    others = [draw(layers(name, query_heads)) for name in names[1:]]
    extras = st.builds(
        Extra,
        name=st.just("extra"),
        role=st.sampled_from(["encoder", "prediction", "other"]),
        parameters=st.integers(0, 10**7),
        shard=st.sampled_from(["replicated", "tensor"]),
        loaded=st.booleans(),
    )
    found = ModelArchitecture(
        hidden_size=draw(st.sampled_from([64, 384, 1024, 2048])),
        vocabulary_size=draw(st.integers(10, 60_000)),
        tied_embeddings=draw(st.booleans()),
        longest_context_tokens=draw(st.sampled_from([300, 4096, 40_960, 131_072])),
        layers=(first, *others),
        stack=tuple(
            Segment(repeat=draw(st.integers(1, 6)), layers=tuple(names))
            for _ in range(draw(st.integers(1, 2)))
        ),
        extras=tuple(draw(st.lists(extras, max_size=2))),
        final_norm=draw(st.booleans()),
    )
    found.check()
    return found


@st.composite
def accelerators(draw: st.DrawFn) -> Accelerator:
    """From far too small to ample for the generated models."""
    total = draw(st.integers(512, 48 * 1024)) * MIB
    usable = None
    if draw(st.booleans()):
        expected = int(total * draw(st.floats(0.9, 1)))
        usable = UsableMemory(
            low_bytes=int(expected * draw(st.floats(0.95, 1))),
            expected_bytes=expected,
            high_bytes=int(expected * draw(st.floats(1, 1.03))),
        )
    return Accelerator(
        name="device",
        marketed_memory_bytes=total,
        usable_memory=usable,
        stacks=draw(st.sampled_from([("cuda",), ("rocm",), ("metal",), ("vulkan",), ()])),
        unified_memory=usable is None and draw(st.booleans()),
    )


@st.composite
def vllm_flags(draw: st.DrawFn) -> VllmFlags:
    """Batch limits are always set: what a version takes by default depends on other parts."""
    return VllmFlags(
        gpu_memory_utilization=draw(st.sampled_from([None, 0.5, 0.9, 1.0])),
        kv_cache_memory_bytes=draw(st.sampled_from([None, None, None, GIB // 4, 16 * GIB])),
        max_num_seqs=draw(st.sampled_from([1, 16, 256])),
        max_num_batched_tokens=draw(st.sampled_from([64, 512, 2048, 8192])),
        block_size=draw(st.sampled_from([None, 1, 16, 64])),
        enforce_eager=draw(st.booleans()),
        disable_hybrid_kv_cache_manager=draw(st.booleans()),
    )


@st.composite
def llama_cpp_flags(draw: st.DrawFn) -> LlamaCppFlags:
    return LlamaCppFlags(
        n_gpu_layers=draw(st.sampled_from([None, None, 0, 1, 5, 1000])),
        ubatch_size=draw(st.sampled_from([None, 64, 512, 2048])),
        flash_attn=draw(st.sampled_from([None, True, False])),
        swa_full=draw(st.booleans()),
        no_kv_offload=draw(st.booleans()),
        backend=draw(st.sampled_from([None, None, "cuda", "rocm", "metal", "vulkan"])),
    )


transformers_flags = st.builds(
    TransformersFlags, attn_implementation=st.sampled_from([None, "eager", "sdpa"])
)

sglang_flags = st.builds(
    SglangFlags,
    mem_fraction_static=st.sampled_from([None, 0.5, 0.9]),
    max_total_tokens=st.sampled_from([None, None, 4096]),
    chunked_prefill_size=st.sampled_from([None, 512, 8192]),
    cuda_graph_max_bs=st.sampled_from([None, 8, 512]),
    disable_cuda_graph=st.booleans(),
    page_size=st.sampled_from([None, 64]),
)

tensorrt_llm_flags = st.builds(
    TensorRtLlmFlags,
    free_gpu_memory_fraction=st.sampled_from([None, 0.5, 0.95]),
    max_tokens=st.sampled_from([None, None, 4096]),
    max_num_tokens=st.sampled_from([None, 512]),
    tokens_per_block=st.sampled_from([None, 32, 128]),
)

tgi_flags = st.builds(
    TgiFlags,
    cuda_memory_fraction=st.sampled_from([None, 0.5]),
    max_batch_prefill_tokens=st.sampled_from([None, 512, 16_384]),
)

FLAGS: dict[Accounting, st.SearchStrategy[Flags]] = {
    "vllm": vllm_flags(),
    "sglang": sglang_flags,
    "tensorrt-llm": tensorrt_llm_flags,
    "tgi": tgi_flags,
    "llama.cpp": llama_cpp_flags(),
    "transformers": transformers_flags,
    "ollama": st.builds(
        OllamaFlags,
        num_gpu=st.sampled_from([0, 1, 5, 1000]),
        num_batch=st.sampled_from([None, 64, 2048]),
        flash_attention=st.sampled_from([None, True, False]),
        gpu_overhead_bytes=st.sampled_from([0, GIB]),
    ),
    "mlx-lm": st.builds(
        MlxFlags,
        prefill_step_size=st.sampled_from([None, 64, 4096]),
        max_kv_size=st.sampled_from([None, None, 512]),
    ),
    "exllama": st.builds(ExllamaFlags, max_chunk_size=st.sampled_from([None, 128, 4096])),
}
"""Layers of Ollama are placed by hand: left to itself, more work moves them off the devices."""


TENSOR_PARALLEL: tuple[Accounting, ...] = ("vllm", "sglang", "tensorrt-llm", "tgi")


def layouts(model: ModelArchitecture, most_stages: int) -> st.SearchStrategy[Parallelism]:
    """Layouts that divide the heads, and leave every pipeline stage some cache."""
    tensors = [n for n in (1, 2, 4, 8) if all(h % n == 0 for h in model.attention_heads)]
    most = min(most_stages, model.layer_count)
    pipelines = [n for n in (1, 2, 3, 5) if n <= most and _each_stage_caches(model, n)]
    return st.builds(
        Parallelism,
        tensor=st.sampled_from(tensors),
        pipeline=st.sampled_from(pipelines),
        data=st.sampled_from([1, 1, 2, 3]),
    )


def _each_stage_caches(model: ModelArchitecture, pipeline: int) -> bool:
    return pipeline == 1 or all(
        any(model.layer_caches[name] for name in stage) for stage in stages(model, pipeline)
    )


@st.composite
def eras(draw: st.DrawFn, accounting: Accounting) -> Era:
    return draw(st.sampled_from(runtime(accounting).eras))


@st.composite
def cases(draw: st.DrawFn, accounting: Accounting) -> InferenceCase:
    model = draw(architectures())
    era = draw(eras(accounting))
    parallel = Parallelism()
    if accounting in TENSOR_PARALLEL:
        parallel = draw(layouts(model, most_stages=1 if accounting == "tgi" else 5))
    spare = draw(st.integers(0, 2 if accounting in TENSOR_PARALLEL else 3))
    spare = 0 if accounting == "mlx-lm" else spare
    flags = draw(FLAGS[accounting])
    key, value = draw(cache_bits), draw(cache_bits)
    if isinstance(flags, LlamaCppFlags) and isinstance(era, LlamaCppEra):
        automatic = era.flash_attention if flags.flash_attn is None else flags.flash_attn
        value = value if automatic else 16
    longest = model.longest_context_tokens
    if isinstance(era, VllmEra) and era.batch_tiers[-1].max_num_batched_tokens is None:
        flags = msgspec.structs.replace(flags, max_num_batched_tokens=longest)  # prefilled at once
    return InferenceCase(
        model=model,
        accelerator=draw(accelerators()),
        count=parallel.ranks + min(spare, model.layer_count - 1),
        runtime=runtime(accounting),
        version=era.since,
        era=era,
        flags=flags,
        weights=NamedWeights("weights", "float", draw(weight_encodings)),
        key_cache=NamedCache("keys", "float", CacheEncoding(bits_per_element=key)),
        value_cache=NamedCache("values", "float", CacheEncoding(bits_per_element=value)),
        parallel=parallel,
        workload=InferenceWorkload(
            context_tokens=draw(st.integers(1, longest) | st.just(longest)),
            concurrent_sequences=draw(st.sampled_from([1, 1, 2, 7, 64, 300])),
        ),
        in_use_bytes=draw(st.sampled_from([0, 0, GIB, 3 * GIB])),
    )


any_case: st.SearchStrategy[InferenceCase] = st.one_of(*(cases(accounting) for accounting in FLAGS))
