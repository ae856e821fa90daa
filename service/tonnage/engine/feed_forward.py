"""The part of a layer that works on each token alone.

Sources: gated units, Shazeer 2020 (arXiv:2002.05202); mixture of experts with shared experts,
DeepSeekMoE (arXiv:2401.06066).
"""

from .modules import Module
from .values import Count, CountOrZero, Value


class Dense(Value, tag="dense", tag_field="kind", frozen=True, kw_only=True):
    intermediate_size: Count
    gated: bool = True
    bias: bool = False

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        wide = hidden_size * self.intermediate_size
        bias = (self.intermediate_size * (1 + self.gated) + hidden_size) * self.bias
        return (
            Module(role="gate_up", parameters=wide * (1 + self.gated)),
            Module(role="down", parameters=wide),
            Module(role="bias", parameters=bias, shard="replicated"),
        )

    def active_share(self) -> float:
        return 1.0


class MixtureOfExperts(
    Value, tag="mixture_of_experts", tag_field="kind", frozen=True, kw_only=True
):
    """Routed experts of one size, and shared experts that every token passes."""

    experts: Count
    experts_per_token: Count
    intermediate_size: Count
    expert_hidden_size: Count | None = None
    """Set where experts work on a narrower vector than the layer's."""
    shared_intermediate_size: CountOrZero = 0
    """The width of all shared experts together; 0 when there are none."""
    shared_gate: bool = False
    gated: bool = True
    expert_bias: bool = False
    router_bias: bool = False

    def modules(self, hidden_size: int) -> tuple[Module, ...]:
        width = self.expert_hidden_size or hidden_size
        wide = self.experts * width * self.intermediate_size
        matrices = 1 + self.gated
        resize = 2 * hidden_size * width if width != hidden_size else 0
        bias = self.experts * (self.intermediate_size * matrices + width) * self.expert_bias
        router = self.experts * (hidden_size + self.router_bias) + hidden_size * self.shared_gate
        return (
            Module(role="router", parameters=router, shard="replicated"),
            Module(role="expert_gate_up", parameters=wide * matrices, shard="expert"),
            Module(role="expert_down", parameters=wide, shard="expert"),
            Module(role="other", parameters=resize, shard="replicated"),
            Module(role="bias", parameters=bias, shard="expert"),
            Module(
                role="shared_expert",
                parameters=hidden_size * self.shared_intermediate_size * matrices,
            ),
            Module(role="shared_expert", parameters=hidden_size * self.shared_intermediate_size),
        )

    def active_share(self) -> float:
        return self.experts_per_token / self.experts
