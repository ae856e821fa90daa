"""Softmax attention: its parameters and what it caches.

Sources: Vaswani et al. 2017 (arXiv:1706.03762); grouped queries, Ainslie et al. 2023
(arXiv:2305.13245); latent attention, DeepSeek-V2 (arXiv:2405.04434, section 2.1).
"""

from .caches import LayerCache, StateCache, TokenCache
from .modules import Module
from .values import Count, CountOrZero, Value


class Attention(Value, tag="attention", tag_field="kind", frozen=True, kw_only=True):
    """Per-head keys and values: multi-head, grouped-query or multi-query."""

    query_heads: Count
    key_value_heads: Count
    head_dim: Count
    value_head_dim: Count | None = None
    window_tokens: Count | None = None
    """Set for sliding-window and chunked local layers: no token looks further back."""
    query_key_value_bias: bool = False
    output_bias: bool = False
    query_key_norm: bool = False
    query_key_norm_wide: bool = False
    """The norms span all heads' width instead of one head's (OLMo 2, MiniMax-M2)."""
    output_gate: bool = False
    """A gate as wide as the queries, held in the query projection (Qwen3-Next)."""
    value_from_key: bool = False
    """No value projection: values are the keys (Gemma 4's global layers). Both are cached."""
    shares_cache: bool = False
    """Reads the cache of an earlier layer and keeps none (Gemma 3n). Encoders keep none either."""
    encoder_tokens: Count | None = None
    """Cross attention: keys and values of so many encoder positions, kept for each sequence
    whatever its length (Whisper's 1,500 audio frames, the image tiles of Llama 3.2 Vision)."""

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        value_dim = self.value_head_dim or self.head_dim
        query = self.query_heads * self.head_dim
        key = self.key_value_heads * self.head_dim
        value = 0 if self.value_from_key else self.key_value_heads * value_dim
        heads = self.key_value_heads
        bias = (query + key + value) * self.query_key_value_bias + hidden_size * self.output_bias
        return (
            Module(role="query", parameters=hidden_size * query * (1 + self.output_gate)),
            Module(role="key", parameters=hidden_size * key, shard="kv_heads", kv_heads=heads),
            Module(role="value", parameters=hidden_size * value, shard="kv_heads", kv_heads=heads),
            Module(role="attention_output", parameters=self.query_heads * value_dim * hidden_size),
            Module(role="bias", parameters=bias, shard="replicated"),
            Module(
                role="norm",
                parameters=(query + key if self.query_key_norm_wide else 2 * self.head_dim)
                * self.query_key_norm,
                shard="replicated",
            ),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        if self.shares_cache:
            return None
        if self.encoder_tokens:
            wide = self.head_dim + (self.value_head_dim or self.head_dim)
            return StateCache(
                convolution_elements=0,
                recurrent_elements=self.encoder_tokens * self.key_value_heads * wide,
                heads=self.key_value_heads,
                encoder_tokens=self.encoder_tokens,
            )
        return TokenCache(
            heads=self.key_value_heads,
            key_elements=self.head_dim,
            value_elements=self.value_head_dim or self.head_dim,
            window_tokens=self.window_tokens,
        )


class SparseIndex(Value, frozen=True, kw_only=True):
    """The small attention that picks tokens for a sparse one (DeepSeek-V3.2's indexer)."""

    heads: Count
    head_dim: Count
    selected_tokens: CountOrZero = 0

    def cache_bytes_per_token(self) -> int:
        """FP8 keys and one float32 scale for each 128 of them (vLLM 0.11 ``IndexerCache``)."""
        return self.head_dim + 4 * -(-self.head_dim // 128)


class LatentAttention(Value, tag="latent_attention", tag_field="kind", frozen=True, kw_only=True):
    """Multi-head latent attention: one compressed vector a token instead of keys and values."""

    query_heads: Count
    query_lora_rank: Count | None = None
    key_value_lora_rank: Count
    no_position_head_dim: Count
    position_head_dim: CountOrZero
    value_head_dim: Count
    index: SparseIndex | None = None

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        head_dim = self.no_position_head_dim + self.position_head_dim
        rank = self.query_lora_rank or 0
        queries = self.query_heads * head_dim
        latent = self.key_value_lora_rank
        index = 0
        if self.index:
            index_query = self.index.heads * self.index.head_dim
            index = (
                (rank or hidden_size) * index_query
                + hidden_size * self.index.head_dim
                + hidden_size * self.index.heads
            )
        return (
            Module(
                role="latent_down",
                parameters=hidden_size * (rank + latent + self.position_head_dim),
                shard="replicated",
            ),
            Module(role="query", parameters=(rank or hidden_size) * queries),
            Module(
                role="latent_up",
                parameters=latent
                * self.query_heads
                * (self.no_position_head_dim + self.value_head_dim),
            ),
            Module(
                role="attention_output",
                parameters=self.query_heads * self.value_head_dim * hidden_size,
            ),
            Module(role="sparse_index", parameters=index, shard="replicated"),
            Module(role="norm", parameters=rank + latent, shard="replicated"),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        return TokenCache(
            heads=1,
            key_elements=self.key_value_lora_rank + self.position_head_dim,
            value_elements=0,
            index_bytes=self.index.cache_bytes_per_token() if self.index else 0,
            fp8_bytes=self._sparse_fp8_bytes() if self.index else None,
        )

    def _sparse_fp8_bytes(self) -> int:
        """FP8 latent, a float32 scale for each 128 of it, 16-bit positions: 656 for DeepSeek-V3.2.

        The layout ``fp8_ds_mla`` of vLLM 0.11 ``flashmla_sparse.py``.
        """
        latent = self.key_value_lora_rank
        return latent + 4 * -(-latent // 128) + 2 * self.position_head_dim

    def expanded_cache(self, padded_head_dim: int | None = None) -> TokenCache:
        """Keys and values of every head, for runtimes that do not cache the latent."""
        head_dim = self.no_position_head_dim + self.position_head_dim
        return TokenCache(
            heads=self.query_heads,
            key_elements=padded_head_dim or head_dim,
            value_elements=padded_head_dim or self.value_head_dim,
        )
