"""How does vLLM cut a cache memory into blocks, and how many does a sequence take?

Read from vLLM 0.9-0.28 ``kv_cache_utils.py`` and checked against its logs: layers of one kind form
groups of equal size, every group's block has the same number of bytes, and one pool of blocks
serves all groups. A model whose layers all keep the whole context is one group.
"""

from functools import cached_property, lru_cache

import msgspec

from tonnage.engine.caches import StateCache
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.search import largest
from tonnage.engine.values import ceil_div, round_up

PADDED_HEAD_DIM = 256
"""To which vLLM before 0.7.1 padded the heads of latent attention (its pull request 4650)."""


class Group(msgspec.Struct, frozen=True):
    """Groups of layers that share block tables; ``copies`` of them behave alike."""

    copies: int
    block_tokens: int
    window_tokens: int | None = None
    encoder_tokens: int = 0
    is_state: bool = False
    state_blocks: int = 1

    def blocks(self, tokens: int, batched_tokens: int) -> int:
        """Blocks that one sequence of so many tokens needs in one such group."""
        if self.is_state:
            return self.state_blocks
        if self.encoder_tokens:
            return ceil_div(self.encoder_tokens, self.block_tokens)
        whole = ceil_div(tokens, self.block_tokens)
        if self.window_tokens is None:
            return whole
        live = min(self.window_tokens - 1 + batched_tokens, tokens)
        return min(ceil_div(live, self.block_tokens) + 1, whole + 1)


class PagedCache(msgspec.Struct, frozen=True, dict=True):
    """One rank's cache layout. ``block_bytes`` is a block over all the layers of one group."""

    block_bytes: int
    groups: tuple[Group, ...]
    token_bytes: int
    """What one more token of a long sequence costs, windows and states being full."""

    @cached_property
    def group_count(self) -> int:
        return sum(group.copies for group in self.groups)

    @cached_property
    def block_tokens(self) -> int:
        """The smallest block of any layer with tokens, by which vLLM prints its token count."""
        return min((g.block_tokens for g in self.groups if not g.is_state), default=1)

    @cached_property
    def _growing(self) -> Group | None:
        """The one group that grows with every token, where there is one."""
        growing = [
            g
            for g in self.groups
            if not g.is_state and g.window_tokens is None and not g.encoder_tokens
        ]
        return growing[0] if len(growing) == 1 else None

    @cached_property
    def _widest_window(self) -> int:
        return max((g.window_tokens or 0 for g in self.groups), default=0)

    def blocks(self, tokens: int, batched_tokens: int) -> int:
        """Blocks that one sequence of so many tokens needs over all groups."""
        found = 0
        for group in self.groups:
            found += group.copies * group.blocks(tokens, batched_tokens)
        return found

    def shared_blocks(self, prefix_tokens: int) -> int:
        """Whole blocks of a common prefix that sequences keep once: of layers that keep it all."""
        if prefix_tokens <= 0:
            return 0
        return sum(
            group.copies * (prefix_tokens // group.block_tokens)
            for group in self.groups
            if not group.is_state and group.window_tokens is None and not group.encoder_tokens
        )

    def blocks_of_many(
        self, tokens: int, batched_tokens: int, sequences: int, prefix_tokens: int = 0
    ) -> int:
        """Blocks of sequences of so many tokens each, a common prefix being kept once.

        The last token of each is always its own: a server computes at least that one.
        """
        shared = self.shared_blocks(min(prefix_tokens, tokens - 1))
        return sequences * (self.blocks(tokens, batched_tokens) - shared) + shared

    def longest(self, blocks: int, batched_tokens: int, limit: int) -> int:
        """The longest sequence that so many blocks hold, up to ``limit`` tokens; 0 for none."""
        full, window = self._growing, self._widest_window
        if full is not None:
            saturated = window + batched_tokens if window else 0
            others = 0
            if len(self.groups) > 1:
                whole = full.copies * full.blocks(saturated, batched_tokens)
                others = self.blocks(saturated, batched_tokens) - whole
            found = (blocks - others) // full.copies * full.block_tokens
            if found >= saturated:
                return max(min(found, limit), 0)
            limit = min(limit, saturated)
        return largest(lambda n: self.blocks(n, batched_tokens) <= blocks, limit)


class _Kind(msgspec.Struct, frozen=True):
    token_bytes: int
    window_tokens: int | None
    state_bytes: int
    encoder_tokens: int = 0
    of_draft: bool = False
    """Layers of a draft model are grouped apart from the model's own."""


class Drafting(msgspec.Struct, frozen=True):
    """What drafting tokens ahead adds to the cache of a stage."""

    tokens: int = 0
    """How many are drafted: each is one more position and one more block of a state."""
    layers: int = 0
    """Of a draft model, each as wide as the model's growing layers."""


NO_DRAFT = Drafting()


@lru_cache(maxsize=4096)
def paged_cache(
    model: ModelArchitecture,
    stage: tuple[tuple[str, int], ...],
    tensor: int,
    key_bits: float,
    value_bits: float,
    block_tokens: int,
    *,
    windowed: bool,
    latent: bool = True,
    state_blocks: int = 1,
    states_in_pages: bool = True,
    drafting: Drafting = NO_DRAFT,
    context_parallel: int = 1,
) -> PagedCache:
    """The layout of the layers of one pipeline stage (name and count of each kind).

    ``states_in_pages=False`` is for releases that allocate states apart (``unpaged_bytes``) and
    keep cross attention in the pages of the layer's own;
    ``context_parallel`` ranks take turns with a growing cache's tokens.
    """
    caches = model.layer_caches if latent else model.expanded_caches(PADDED_HEAD_DIM)
    kinds: dict[_Kind, int] = {}
    for name, count in stage:
        for cache in caches[name]:
            if not isinstance(cache, StateCache):
                window = cache.window_tokens if windowed else None
                kind = _Kind(token_bytes(cache, tensor, key_bits, value_bits), window, 0)
            elif cache.encoder_tokens:
                each = state_bytes(cache, tensor) // cache.encoder_tokens
                kind = _Kind(each, None, 0, cache.encoder_tokens)
                if not states_in_pages:
                    if len(caches[name]) > 1:
                        continue
                    kind = _Kind(each, None, 0)
            elif states_in_pages:
                kept = state_bytes(cache, tensor, drafted_tokens=drafting.tokens)
                kind = _Kind(0, None, kept)
            else:
                continue
            kinds[kind] = kinds.get(kind, 0) + count
    if drafting.layers and kinds:
        widest = max(kind.token_bytes for kind in kinds)
        kinds[_Kind(widest, None, 0, of_draft=True)] = drafting.layers
    growing = sum(
        kind.token_bytes * count
        for kind, count in kinds.items()
        if kind.window_tokens is None and not kind.encoder_tokens
    )
    if all(_grows(kind) and not kind.of_draft for kind in kinds):
        held = block_tokens * context_parallel
        return PagedCache(growing * block_tokens, (Group(1, held),), growing // context_parallel)
    if drafting.tokens:
        state_blocks = 1 + drafting.tokens
    return _grouped(kinds, block_tokens, growing, state_blocks, context_parallel)


def _grows(kind: _Kind) -> bool:
    return kind.window_tokens is None and not kind.state_bytes and not kind.encoder_tokens


def unpaged_bytes(model: ModelArchitecture, stage: tuple[tuple[str, int], ...], tensor: int) -> int:
    """Bytes of one sequence's states over a stage's layers, where they have no pages."""
    return sum(
        count * state_bytes(cache, tensor)
        for name, count in stage
        for cache in model.layer_caches[name]
        if isinstance(cache, StateCache) and not cache.encoder_tokens
    )


def _grouped(
    kinds: dict[_Kind, int],
    block_tokens: int,
    growing: int,
    state_blocks: int,
    context_parallel: int,
) -> PagedCache:
    block, page = _page(kinds, block_tokens)
    sizes = list(kinds.values())
    smallest, largest = min(sizes), max(sizes)
    group_size = largest if largest < smallest * 1.25 else smallest
    groups = [
        Group(
            copies=ceil_div(count, group_size),
            block_tokens=(page // kind.token_bytes if kind.token_bytes else block)
            * (context_parallel if kind.window_tokens is None else 1),
            window_tokens=kind.window_tokens,
            encoder_tokens=kind.encoder_tokens,
            is_state=bool(kind.state_bytes),
            state_blocks=state_blocks,
        )
        for kind, count in kinds.items()
    ]
    groups.sort(key=lambda group: (group.is_state, group.window_tokens is not None))
    return PagedCache(group_size * page, tuple(groups), growing // context_parallel)


def _page(kinds: dict[_Kind, int], block_tokens: int) -> tuple[int, int]:
    """Tokens of the widest layer's block, and the bytes that every layer's page is padded to."""
    widest = max(kind.token_bytes for kind in kinds)
    state = max(kind.state_bytes for kind in kinds)
    if not widest:
        return 1, state
    block = block_tokens
    if state > block * widest:
        block = round_up(ceil_div(state, widest), block_tokens)
    return block, block * widest
