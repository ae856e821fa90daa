"""From one layer per position to named kinds of layers and run-length segments."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.errors import UnknownArchitecture
from tonnage.engine.feed_forward import MixtureOfExperts
from tonnage.engine.model import FeedForward, Layer, Mixer, ModelArchitecture, Segment
from tonnage.engine.modules import Extra

LONGEST_STACK = 2000

Part = TypeVar("Part")


def layer(
    mixer: Mixer | Sequence[Mixer] | None,
    feed_forward: FeedForward | Sequence[FeedForward] | None,
    norms: int = 2,
) -> Layer:
    """A layer that is named later, when its neighbours are known."""
    return Layer(name="layer", mixers=_tuple(mixer), feed_forward=_tuple(feed_forward), norms=norms)


def _tuple(parts: Part | Sequence[Part] | None) -> tuple[Part, ...]:
    if parts is None:
        return ()
    return tuple(parts) if isinstance(parts, Sequence) else (parts,)


def _mixer_name(mixer: Mixer) -> str:
    if not isinstance(mixer, Attention):
        return str(msgspec.to_builtins(mixer)["kind"])
    if mixer.encoder_tokens:
        return "cross_attention"
    base = "sliding_attention" if mixer.window_tokens else "attention"
    return f"{base}_without_cache" if mixer.shares_cache else base


def _layer_name(described: Layer) -> str:
    parts = [_mixer_name(mixer) for mixer in described.mixers]
    experts = any(isinstance(part, MixtureOfExperts) for part in described.feed_forward)
    if experts:
        parts.append("experts")
    elif described.feed_forward and not described.mixers:
        parts.append("feed_forward")
    return "+".join(parts) or "nothing"


def fold(names: Sequence[str]) -> tuple[Segment, ...]:
    """The shortest description found by taking, from the left, the pattern that covers most."""
    segments: list[Segment] = []
    position = 0
    while position < len(names):
        period, repeat = _best_period(names, position)
        layers = tuple(names[position : position + period])
        if repeat == 1 and segments and segments[-1].repeat == 1:
            segments[-1] = Segment(layers=segments[-1].layers + layers)
        else:
            segments.append(Segment(repeat=repeat, layers=layers))
        position += period * repeat
    return tuple(segments)


def _best_period(names: Sequence[str], start: int, longest: int = 24) -> tuple[int, int]:
    best = (1, 1)
    for period in range(1, min(longest, len(names) - start) + 1):
        repeat = 1
        while (
            names[start + period * repeat : start + period * (repeat + 1)]
            == (names[start : start + period])
        ):
            repeat += 1
        if repeat > 1 and period * repeat > best[0] * best[1]:
            best = (period, repeat)
    return best


def assemble(
    layers: Sequence[Layer],
    *,
    hidden_size: int,
    vocabulary_size: int,
    longest_context_tokens: int,
    tied_embeddings: bool = False,
    extras: Sequence[Extra | None] = (),
    final_norm: bool = True,
) -> ModelArchitecture:
    named: dict[Layer, Layer] = {}
    taken: dict[str, int] = {}
    for described in layers:
        if described not in named:
            base = _layer_name(described)
            taken[base] = taken.get(base, 0) + 1
            name = base if taken[base] == 1 else f"{base}_{taken[base]}"
            named[described] = msgspec.structs.replace(described, name=name)
    if not 1 <= len(layers) <= LONGEST_STACK:
        raise UnknownArchitecture(
            f"a stack of {len(layers)} layers; one to {LONGEST_STACK} are possible",
            pointer="/num_hidden_layers",
        )
    if len(named) > 64:
        raise UnknownArchitecture(
            "the stack has more than 64 different kinds of layers", pointer="/num_hidden_layers"
        )
    order = [named[described].name for described in layers]
    segments = fold(order)
    return ModelArchitecture(
        hidden_size=hidden_size,
        vocabulary_size=vocabulary_size,
        tied_embeddings=tied_embeddings,
        longest_context_tokens=longest_context_tokens,
        layers=tuple(named.values()),
        stack=segments if len(segments) <= 64 else (Segment(layers=tuple(order)),),
        extras=tuple(extra for extra in extras if extra and extra.parameters),
        final_norm=final_norm,
    )


def with_extras(architecture: ModelArchitecture, *extras: Extra | None) -> ModelArchitecture:
    more = tuple(extra for extra in extras if extra and extra.parameters)
    return msgspec.structs.replace(architecture, extras=architecture.extras + more)
