"""What holds of a runtime's memory from one version on: an era for each kind of accounting.

The code of ``memory/runtimes`` reads them; a release that changes a default is a new era in the
catalog and no new code.
"""

from typing import Annotated, Literal

import msgspec

from .values import BytesOrZero, Count, CountOrZero, Fraction, ShortText, Value

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]


class BatchTier(Value, frozen=True, kw_only=True):
    """Batch limits of a server whose user set none, by the device's memory."""

    smallest_device_gib: CountOrZero = 0
    except_names: tuple[ShortText, ...] = ()
    """Devices that this tier skips, by a part of their name (``a100``)."""
    max_num_batched_tokens: Count | None = None
    """None: the whole context in one prefill."""
    max_num_seqs: Count


class ExpertPadding(Value, frozen=True, kw_only=True):
    """To which multiples a kernel pads experts of a weight format when it repacks them on load."""

    format: ShortText
    hidden_multiple: Count
    intermediate_multiple: Count
    """Of one rank's share; kernels that pad the hidden size alone are the low reading."""


class VllmEra(Value, tag="vllm", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    gpu_memory_utilization: Fraction
    kv_block_tokens: Count = 16
    batch_tiers: tuple[BatchTier, ...]
    cuda_graphs: Literal["in_margin", "subtracted"]
    """Whether graphs are taken from the budget or live in the (1 - utilization) part."""
    local_layers: Literal["full_length", "windowed"]
    """Whether sliding-window layers keep the whole context or the window alone."""
    latent_cache: bool
    """Whether latent attention is cached as the latent (True) or as padded per-head keys/values."""
    sampler_bytes_per_logit: Count
    """What PyTorch's sampler takes for each sequence and vocabulary entry."""
    long_context_batched_tokens: Count | None = None
    """Prefill is cut into chunks of this size once the context is longer than 32768 tokens."""
    other_programs: Literal["subtracted", "refused"] = "subtracted"
    """Whether memory of other programs shrinks the budget, or only has to leave it free."""
    expert_padding: tuple[ExpertPadding, ...] = ()
    states: Literal["in_pages", "up_front"] = "in_pages"
    """Whether states of linear attention share the cache's pages, or are allocated for
    ``max_num_seqs`` sequences at load and cross attention shares its layer's pages."""
    multimodal_batch: Literal["by_budget", "by_items"] = "by_budget"
    """Whether the profile run of a multimodal model holds all sequences, or only as many as their
    images fit into the batch."""
    linked_rank_overhead_bytes: BytesOrZero = 0
    """What a tensor rank takes outside the allocator where devices are linked beyond PCIe; 0 where
    it is as on other devices."""
    offloaded_weights: Literal["left_out", "counted"] = "left_out"
    """Whether weights that stay in system memory still count against the budget."""
    state_blocks: Count = 1
    """Blocks of a state layer that a sequence takes with prefix caching on; 1 with it off."""
    token_count_of_hybrids: Literal["per_group", "by_concurrency"]
    note: Text | None = None


class RankFraction(Value, frozen=True, kw_only=True):
    """The share of memory for weights and cache from so many tensor ranks on."""

    ranks: Count
    fraction: Fraction


class ReserveTier(Value, frozen=True, kw_only=True):
    """What is left free for activations and graphs, in MiB, on devices below a size."""

    below_gib: Count | None = None
    """None: devices of any size."""
    base_mib: CountOrZero
    mib_per_rank: CountOrZero = 0
    mib_per_chunked_token: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0
    mib_per_graph_sequence: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0
    least_mib: CountOrZero = 0


class DeviceTier(Value, frozen=True, kw_only=True):
    """A default that depends on the device's memory."""

    below_gib: Count | None = None
    amount: Count
    amount_from_four_ranks: Count | None = None


class SglangEra(Value, tag="sglang", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    fractions: tuple[RankFraction, ...] = ()
    """Most ranks first; none where the reserve decides."""
    large_device_correction: bool = False
    """Above 96 GiB: min(f + 48 GiB (1 - f) / memory, (memory - 18 GiB) / memory)."""
    reserve_tiers: tuple[ReserveTier, ...] = ()
    chunked_prefill_tiers: tuple[DeviceTier, ...]
    graph_batch_tiers: tuple[DeviceTier, ...]
    cache_page_tokens: Count = 1
    window_tokens_ratio: Fraction = 0.8
    """Tokens that windowed layers keep for each that the others keep."""
    note: Text | None = None


class TensorRtLlmEra(Value, tag="tensorrt-llm", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    backend: Literal["engine", "pytorch"]
    """Whether the cache takes a share of what is free after a built engine is loaded, or of what
    a profile run's peak leaves."""
    free_gpu_memory_fraction: Fraction = 0.9
    kv_block_tokens: Count
    max_num_tokens: Count = 8192
    max_batch_size: Count = 2048
    note: Text | None = None


class TgiEra(Value, tag="tgi", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    wiggle_room: Fraction
    """The share of ``CUDA_MEMORY_FRACTION`` that is really used."""
    kv_block_tokens: Count
    max_batch_prefill_tokens: Count = 4096
    note: Text | None = None


class LlamaCppEra(Value, tag="llama.cpp", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    micro_batch_tokens: Count = 512
    flash_attention: bool
    """The default where the device allows it."""
    local_layers: Literal["full_length", "windowed"]
    latent_cache: bool
    latent_values: bool = False
    """Whether the compressed values of latent attention are cached a second time."""
    one_compute_buffer: bool = False
    """Whether the devices share one compute buffer, sized without the output hidden vector."""
    row_split: bool = False
    """Devices share every matrix by rows; the first alone has the cache and the output buffers."""
    allocation_step_bytes: CountOrZero = 0
    """Set where CUDA allocates each matrix by itself, in steps of this size."""
    graph_metadata_bytes: CountOrZero = 0
    """What Metal's buffer also counts: the descriptions of the graph's tensors."""
    copies_host_matrices: bool = False
    """Whether large batches of layers in system memory run on the first device."""
    output_first: bool = False
    """Whether the output layer is the first or the last to go to a device."""
    context_padding_tokens: Count = 256
    note: Text | None = None


class TransformersEra(Value, tag="transformers", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    local_layers: Literal["full_length", "windowed"]
    latent_cache: bool = False
    note: Text | None = None


class ContextTier(Value, frozen=True, kw_only=True):
    """The context of a server whose user set none, by the memory of all its devices."""

    smallest_total_gib: CountOrZero = 0
    tokens: Count


class OllamaEra(Value, tag="ollama", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    llama_cpp: LlamaCppEra
    """The rules of the engine inside."""
    contexts: tuple[ContextTier, ...]
    """Largest first."""
    parallel: Count
    """Sequences served at once unless OLLAMA_NUM_PARALLEL says otherwise."""
    note: Text | None = None


class MlxEra(Value, tag="mlx-lm", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    prefill_tokens: Count
    """A prompt is worked on in steps of so many tokens."""
    cache_step_tokens: Count
    logits_of_last_step: bool
    """Whether a prompt's last step makes logits of all its tokens, or of its last one alone."""
    note: Text | None = None


class ExllamaEra(Value, tag="exllama", tag_field="accounting", frozen=True, kw_only=True):
    since: ShortText
    chunk_tokens: Count
    page_tokens: Count
    dequantized_elements: CountOrZero
    """At most so many weights of a matrix are unpacked to 16 bits at once for a long prompt."""
    note: Text | None = None


Era = (
    VllmEra
    | SglangEra
    | TensorRtLlmEra
    | TgiEra
    | LlamaCppEra
    | TransformersEra
    | OllamaEra
    | MlxEra
    | ExllamaEra
)
