"""What is to be run, and how it is laid out over accelerators."""

from typing import Annotated

import msgspec

from .values import Count, CountOrZero, Value

ContextTokens = Annotated[int, msgspec.Meta(ge=1, le=10**8)]
ParallelSize = Annotated[int, msgspec.Meta(ge=1, le=4096)]


class InferenceWorkload(Value, frozen=True, kw_only=True):
    context_tokens: ContextTokens
    """Prompt and answer together, of one sequence."""
    concurrent_sequences: Count = 1
    """Sequences whose cache is held at the same time."""
    shared_prefix_tokens: CountOrZero = 0
    """The first tokens of every sequence, where they are the same in all (a system prompt): servers
    that cache prefixes keep them once."""


class Parallelism(Value, frozen=True, kw_only=True):
    """Ranks = tensor x pipeline x data; experts are split over tensor x data or not at all."""

    tensor: ParallelSize = 1
    pipeline: ParallelSize = 1
    data: ParallelSize = 1
    expert: ParallelSize = 1

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline * self.data
