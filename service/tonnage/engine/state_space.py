"""Layers that keep a state of fixed size instead of a cache that grows.

Sources: Mamba (arXiv:2312.00752), Mamba-2 (arXiv:2405.21060), gated delta net (arXiv:2412.06464),
Kimi delta attention (arXiv:2510.26692), lightning attention (arXiv:2501.08313); parameter names and
shapes from transformers 5.24 modelling code, state shapes from vLLM 0.11 ``mamba_utils.py``.
"""

from .caches import LayerCache, StateCache
from .modules import Module
from .values import Count, Value


class GatedDeltaNet(Value, tag="gated_delta_net", tag_field="kind", frozen=True, kw_only=True):
    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    convolution_width: Count = 4
    state_bits: Count = 32

    def _widths(self) -> tuple[int, int]:
        return self.key_heads * self.key_head_dim, self.value_heads * self.value_head_dim

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        key, value = self._widths()
        small = (2 * key + value) * self.convolution_width + 2 * self.value_heads
        return (
            Module(role="state_space", parameters=hidden_size * 2 * (key + value)),
            Module(role="state_space", parameters=hidden_size * 2 * self.value_heads),
            Module(role="state_space", parameters=value * hidden_size),
            Module(role="state_space_small", parameters=small),
            Module(role="norm", parameters=self.value_head_dim, shard="replicated"),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        key, value = self._widths()
        return StateCache(
            convolution_elements=(2 * key + value) * (self.convolution_width - 1),
            convolution_positions=self.convolution_width - 1,
            recurrent_elements=self.value_heads * self.key_head_dim * self.value_head_dim,
            heads=self.key_heads,
            recurrent_bits=self.state_bits,
        )


class KimiDeltaAttention(
    Value, tag="kimi_delta_attention", tag_field="kind", frozen=True, kw_only=True
):
    heads: Count
    head_dim: Count
    convolution_width: Count = 4
    state_bits: Count = 32

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        width = self.heads * self.head_dim
        low_rank_gates = 2 * (hidden_size * self.head_dim + self.head_dim * width)
        return (
            Module(role="state_space", parameters=3 * hidden_size * width),
            Module(role="state_space", parameters=low_rank_gates + hidden_size * self.heads),
            Module(role="state_space", parameters=hidden_size * width),
            Module(
                role="state_space_small",
                parameters=3 * width * self.convolution_width + width + self.heads,
            ),
            Module(role="norm", parameters=self.head_dim, shard="replicated"),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        width = self.heads * self.head_dim
        return StateCache(
            convolution_elements=3 * width * (self.convolution_width - 1),
            convolution_positions=self.convolution_width - 1,
            recurrent_elements=self.heads * self.head_dim * self.head_dim,
            heads=self.heads,
            recurrent_bits=self.state_bits,
        )


class Mamba2(Value, tag="mamba2", tag_field="kind", frozen=True, kw_only=True):
    heads: Count
    head_dim: Count
    state_size: Count
    groups: Count = 1
    convolution_width: Count = 4
    state_bits: Count = 16

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        inner = self.heads * self.head_dim
        mixed = inner + 2 * self.groups * self.state_size
        return (
            Module(role="state_space", parameters=hidden_size * (inner + mixed + self.heads)),
            Module(role="state_space", parameters=inner * hidden_size),
            Module(
                role="state_space_small",
                parameters=mixed * (self.convolution_width + 1) + 3 * self.heads,
            ),
            Module(role="norm", parameters=inner, shard="replicated"),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        inner = self.heads * self.head_dim
        mixed = inner + 2 * self.groups * self.state_size
        return StateCache(
            convolution_elements=mixed * (self.convolution_width - 1),
            convolution_positions=self.convolution_width - 1,
            recurrent_elements=inner * self.state_size,
            heads=self.heads,
            recurrent_bits=self.state_bits,
        )


class Mamba(Value, tag="mamba", tag_field="kind", frozen=True, kw_only=True):
    inner_size: Count
    state_size: Count
    time_step_rank: Count
    convolution_width: Count = 4
    inner_norms: bool = False
    """Norms on the time step and both state projections (Jamba)."""

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        inner, state, rank = self.inner_size, self.state_size, self.time_step_rank
        return (
            Module(role="state_space", parameters=hidden_size * 2 * inner),
            Module(role="state_space", parameters=inner * (rank + 2 * state) + rank * inner),
            Module(role="state_space", parameters=inner * hidden_size),
            Module(
                role="state_space_small",
                parameters=inner * (self.convolution_width + 1) + inner * state + 2 * inner,
            ),
            Module(
                role="norm", parameters=(rank + 2 * state) * self.inner_norms, shard="replicated"
            ),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        return StateCache(
            convolution_elements=self.inner_size * (self.convolution_width - 1),
            convolution_positions=self.convolution_width - 1,
            recurrent_elements=self.inner_size * self.state_size,
            heads=self.inner_size,
        )


class LightningAttention(
    Value, tag="lightning_attention", tag_field="kind", frozen=True, kw_only=True
):
    """Linear attention with a decay (MiniMax-Text-01)."""

    heads: Count
    head_dim: Count
    state_bits: Count = 32

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        width = self.heads * self.head_dim
        return (
            Module(role="state_space", parameters=3 * hidden_size * width),
            Module(role="state_space", parameters=hidden_size * width),
            Module(role="state_space", parameters=hidden_size * width),
            Module(role="norm", parameters=width, shard="replicated"),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        return StateCache(
            convolution_elements=0,
            recurrent_elements=self.heads * self.head_dim * self.head_dim,
            heads=self.heads,
            recurrent_bits=self.state_bits,
        )


class ShortConvolution(Value, tag="short_convolution", tag_field="kind", frozen=True, kw_only=True):
    """A gated convolution over the last few tokens (LFM2)."""

    convolution_width: Count = 3

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        return (
            Module(role="state_space", parameters=3 * hidden_size * hidden_size),
            Module(role="state_space", parameters=hidden_size * hidden_size),
            Module(role="state_space_small", parameters=hidden_size * self.convolution_width),
        )

    def cache(self, hidden_size: int) -> LayerCache | None:
        return StateCache(
            convolution_elements=hidden_size * (self.convolution_width - 1),
            convolution_positions=self.convolution_width - 1,
            recurrent_elements=0,
            heads=hidden_size,
        )
