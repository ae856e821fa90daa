"""The settings of a runtime that change memory, by the runtime's own names."""

from typing import Annotated, Literal

import msgspec

from .values import BytesOrZero, Count, CountOrZero, Fraction, ShortText, Value

Backend = Literal["cuda", "rocm", "metal", "vulkan"]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=10**8)]


class Speculative(Value, frozen=True, kw_only=True):
    """Tokens drafted ahead of the model, as ``speculative_config`` states it."""

    method: Literal["mtp", "draft_model", "eagle", "medusa", "dflash", "ngram"]
    """``mtp`` drafts with the model's own prediction layers."""
    num_speculative_tokens: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    draft_weights_bytes: BytesOrZero = 0
    """On one rank, of a draft model or of drafting heads; not for ``mtp`` and ``ngram``."""
    draft_layers: CountOrZero = 0
    """Layers of the draft that keep a cache as wide as the model's growing layers."""


class VllmFlags(Value, frozen=True, kw_only=True):
    """Flags of ``vllm serve``; what is left out takes the default of the version."""

    gpu_memory_utilization: Fraction | None = None
    kv_cache_memory_bytes: BytesOrZero | None = None
    """Sizes the KV cache directly; the utilization is then ignored."""
    max_model_len: Tokens | None = None
    """Left out: taken as the workload's context, which the answer says."""
    max_num_seqs: Count | None = None
    max_num_batched_tokens: Tokens | None = None
    block_size: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    enforce_eager: bool = False
    use_flashinfer_sampler: bool = False
    """The environment variable VLLM_USE_FLASHINFER_SAMPLER."""
    enable_prefix_caching: bool = True
    disable_hybrid_kv_cache_manager: bool = False
    decode_context_parallel_size: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Over how many of the tensor ranks the tokens of a copied cache are spread."""
    speculative_config: Speculative | None = None
    enable_lora: bool = False
    max_loras: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 1
    max_lora_rank: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 16
    fully_sharded_loras: bool = False
    language_model_only: bool = False
    """Vision and audio towers are left out."""
    cpu_offload_gb: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    """Weights of each rank that stay in system memory, in GiB as vLLM counts them."""
    kv_offloading_size: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    """A tier of cache in system memory for all tensor ranks of a replica together, in GiB."""


class SglangFlags(Value, frozen=True, kw_only=True):
    """Flags of ``sglang.launch_server``; what is left out takes the default of the version."""

    mem_fraction_static: Fraction | None = None
    """The share of memory for weights and cache."""
    context_length: Tokens | None = None
    max_total_tokens: Tokens | None = None
    """Caps the pool of tokens."""
    max_running_requests: Count | None = None
    chunked_prefill_size: Tokens | None = None
    cuda_graph_max_bs: Count | None = None
    disable_cuda_graph: bool = False
    page_size: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None
    enable_dp_attention: bool = False
    """Attention is copied to ``parallel.data`` groups inside the tensor ranks."""


class TensorRtLlmFlags(Value, frozen=True, kw_only=True):
    """Settings of ``trtllm-serve`` and its ``kv_cache_config``."""

    free_gpu_memory_fraction: Fraction | None = None
    max_tokens: Tokens | None = None
    """Caps the cache's tokens."""
    max_num_tokens: Tokens | None = None
    max_batch_size: Count | None = None
    max_seq_len: Tokens | None = None
    tokens_per_block: Annotated[int, msgspec.Meta(ge=1, le=1024)] | None = None


class TgiFlags(Value, frozen=True, kw_only=True):
    """Settings of ``text-generation-launcher``."""

    cuda_memory_fraction: Fraction | None = None
    max_batch_prefill_tokens: Tokens | None = None
    max_total_tokens: Tokens | None = None
    """The longest request, prompt and answer together."""


class LlamaCppFlags(Value, frozen=True, kw_only=True):
    """Flags of ``llama-server``."""

    n_gpu_layers: CountOrZero | None = None
    """Left out: all layers, the output layer counted as one more."""
    ubatch_size: Tokens | None = None
    flash_attn: bool | None = None
    swa_full: bool = False
    no_kv_offload: bool = False
    backend: Backend | None = None
    """What the build computes with. Left out: the device's own, before Vulkan."""


class TransformersFlags(Value, frozen=True, kw_only=True):
    """Settings of ``from_pretrained`` and ``generate``."""

    attn_implementation: ShortText | None = None
    """``eager`` builds the quadratic score matrix; ``sdpa`` and ``flash_attention_2`` do not."""


class OllamaFlags(Value, frozen=True, kw_only=True):
    """Options of a model and environment variables of ``ollama serve``."""

    num_gpu: CountOrZero | None = None
    """Layers on the devices, the output layer counted as one. Left out: as many as fit."""
    num_batch: Tokens | None = None
    flash_attention: bool | None = None
    """OLLAMA_FLASH_ATTENTION; without it a quantized cache is not used."""
    gpu_overhead_bytes: BytesOrZero = 0
    """OLLAMA_GPU_OVERHEAD, kept free on every device."""
    backend: Backend | None = None


class MlxFlags(Value, frozen=True, kw_only=True):
    """Options of ``mlx_lm.generate`` and ``mlx_lm.server``."""

    prefill_step_size: Tokens | None = None
    max_kv_size: Tokens | None = None
    """The cache turns round after so many tokens."""


class ExllamaFlags(Value, frozen=True, kw_only=True):
    """What ExLlamaV2 and ExLlamaV3 are loaded with."""

    max_chunk_size: Tokens | None = None
    """Tokens of a prompt worked on at once (``max_input_len`` in ExLlamaV2)."""


Flags = (
    VllmFlags
    | SglangFlags
    | TensorRtLlmFlags
    | TgiFlags
    | LlamaCppFlags
    | TransformersFlags
    | OllamaFlags
    | MlxFlags
    | ExllamaFlags
)
