"""The settings of a runtime that change memory, by the runtime's own names."""

from typing import Annotated, Literal

import msgspec

from .values import BytesOrZero, Count, CountOrZero, Fraction, ShortText, Value

Backend = Literal["cuda", "rocm", "metal", "vulkan"]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=10**8)]


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


Flags = VllmFlags | LlamaCppFlags | TransformersFlags | OllamaFlags | MlxFlags | ExllamaFlags
