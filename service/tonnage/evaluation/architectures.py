"""The architecture behind a row's model name: from the catalog, a file beside it, or the row.

A GGUF row prints its hyper-parameters. They check the record that a name resolves to, find a record
when the name does not, and describe a plain dense decoder by themselves.
"""

import re

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import ModelRecord
from tonnage.catalog.release import Release
from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense, MixtureOfExperts
from tonnage.engine.model import FeedForward, Layer, ModelArchitecture, Segment

from .rows import Shape

CONTEXT_WHERE_NOT_STATED = 2**20
INTERLEAVED = frozenset(
    {"deepseek2", "gemma2", "gemma3", "gpt-oss", "jamba", "llama4", "qwen3next", "qwen35moe"}
)
"""llama.cpp architectures whose layers differ in ways that the printed shape does not say."""
OWN_EXPERT_WIDTH = frozenset({"qwen2moe", "qwen3moe", "glm4moe", "dots1"})
"""Those whose printed ``n_ff`` is not the width of an expert."""

_QUANTIZED = re.compile(
    r"(?i)[-_. ](?:ud[-_])?(?:i\d[-_.])?"
    r"(?:i?q\d[a-z0-9_]*|f16|bf16|mxfp4(?:[-_].*)?|\d+bit)$"
)
_TRAILING = re.compile(
    r"(?i)(?:[-_. ](?:safetensors|mtp|qat|gguf|instruct|inst|it|\d{4})| \d+B\.A\d+B| class| 671B)$"
)
_SIZE_AT_END = re.compile(r"(?i)[-_:]\d+(?:\.\d+)?b(?P<version>-v[\d.]+)?$")
_LEADING = re.compile(r"(?i)^(?:unsloth|opensourcerelease|bartowski)_")


class Known:
    """Architectures of a release, found by name or by shape."""

    def __init__(self, release: Release, beside: dict[str, ModelArchitecture]) -> None:
        self._release = release
        self._beside = beside
        self._by_shape: dict[tuple[int, int, int], ModelArchitecture] = {}
        for record in release.records["models"].values():
            assert isinstance(record, ModelRecord)
            found = record.architecture
            if found is not None:
                key = (found.layer_count, found.hidden_size, found.vocabulary_size)
                self._by_shape.setdefault(key, found)

    def record(self, *names: str | None) -> ModelRecord | None:
        """The first of the names that means a model of the catalog."""
        for name in names:
            try:
                found = self._release.resolve("models", name or "").record
            except UnknownRecord:
                continue
            if isinstance(found, ModelRecord):
                return found
        return None

    def named(self, *names: str | None) -> ModelArchitecture | None:
        """The first of the names that means a model with an architecture."""
        for name in names:
            if name is None:
                continue
            try:
                record = self._release.resolve("models", name).record
            except UnknownRecord:
                record = None
            if isinstance(record, ModelRecord) and record.architecture is not None:
                return record.architecture
            if name in self._beside:
                return self._beside[name]
        return None

    def of_file(self, name: str | None, shape: Shape | None) -> ModelArchitecture | None:
        """The architecture of a GGUF file, by name if the shape agrees, else by its shape."""
        if name is not None:
            for candidate in _shorter(name):
                found = self.named(candidate)
                if found is not None and _agrees(found, shape):
                    return found
            tuned = self._tuned(name, shape)
            if tuned is not None:
                return tuned
        if shape is None:
            return None
        return described(shape) or self._of_shape(shape)

    def _tuned(self, name: str, shape: Shape | None) -> ModelArchitecture | None:
        """Of a fine-tune that carries its base model's name behind its own.

        ``shisa-v2-llama3.1-8b`` is a Llama 3.1 8B. Only what ends in a size counts.
        """
        end = _SIZE_AT_END.search(name := _shorter(name)[-1])
        if end is None:
            return None
        words = name.removesuffix(end["version"] or "").split("-")
        for start in range(1, len(words)):
            found = self.named("-".join(words[start:]))
            if found is not None and _agrees(found, shape):
                return found
        return None

    def _of_shape(self, shape: Shape) -> ModelArchitecture | None:
        if shape.n_layer is None or shape.n_embd is None or shape.n_vocab is None:
            return None
        return self._by_shape.get((shape.n_layer, shape.n_embd, shape.n_vocab))


def _shorter(name: str) -> list[str]:
    """A file's name, then without its number format, then without what else follows a model's."""
    found = [name]
    rest = _QUANTIZED.sub("", _LEADING.sub("", name))
    while True:
        if rest not in found:
            found.append(rest)
        shorter = _QUANTIZED.sub("", _TRAILING.sub("", rest))
        if shorter == rest:
            return found
        rest = shorter


def _agrees(found: ModelArchitecture, shape: Shape | None) -> bool:
    if shape is None:
        return True
    return shape.n_layer in (None, found.layer_count) and shape.n_embd in (
        None,
        found.hidden_size,
    )


def described(shape: Shape) -> ModelArchitecture | None:
    """A decoder of equal layers; None where the shape leaves open what they are."""
    if shape.arch in INTERLEAVED or (shape.n_swa or 0) > 0:
        return None
    layers, hidden, heads = shape.n_layer, shape.n_embd, shape.n_head
    if not (layers and hidden and heads and shape.n_ff and shape.n_vocab):
        return None
    if shape.n_expert and shape.arch in OWN_EXPERT_WIDTH:
        return None
    mixer = Attention(
        query_heads=heads,
        key_value_heads=shape.n_head_kv or heads,
        head_dim=shape.n_embd_head_k or hidden // heads,
        query_key_value_bias=shape.arch in ("qwen2", "qwen2moe"),
        query_key_norm=shape.arch in ("qwen3", "qwen3moe"),
    )
    return ModelArchitecture(
        hidden_size=hidden,
        vocabulary_size=shape.n_vocab,
        longest_context_tokens=CONTEXT_WHERE_NOT_STATED,
        layers=(Layer(name="layer", mixers=(mixer,), feed_forward=(_feed_forward(shape),)),),
        stack=(Segment(repeat=layers, layers=("layer",)),),
    )


def _feed_forward(shape: Shape) -> FeedForward:
    assert shape.n_ff is not None
    if not shape.n_expert:
        return Dense(intermediate_size=shape.n_ff)
    return MixtureOfExperts(
        experts=shape.n_expert,
        experts_per_token=shape.n_expert_used or 1,
        intermediate_size=shape.n_ff,
    )
