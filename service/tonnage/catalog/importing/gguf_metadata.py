"""Asking a GGUF header for sizes: typed, refused by key, and remembering what was asked.

Keys are named in ggml's ``docs/gguf.md`` and llama.cpp's ``src/llama-arch.cpp``.
"""

import re
from typing import Never

from tonnage.engine.errors import UnknownArchitecture
from tonnage.engine.values import LARGEST_COUNT

from .errors import GGUF_POINTER
from .gguf import Header, Skipped

CHANGES_MEMORY = re.compile(
    r"ssm\.|shortconv\.|wkv\.|kda\.|altup\.|hash|"
    r"attention\.(indexer\.|.*lora_rank$|shared_kv_layers$|.*_swa$|chunk|compress)|"
    r"(expert_count|expert_shared_count|expert_shared_feed_forward_length|"
    r"expert_chunk_feed_forward_length|leading_dense_block_count|interleave_moe_layer_step|"
    r"moe_every_n_layers|moe_latent_size|nextn_predict_layers|full_attention_interval|"
    r"embedding_length_per_layer_input|decoder_block_count)$"
)
"""After the architecture's name; refused where set and not asked for."""

_BLOCK = re.compile(r"^blk\.\d+\.")
_EXPERT = re.compile(r"\.\d+\.")


class Metadata:
    """The file's own architecture's metadata, and its tensors by their part of a block."""

    def __init__(self, header: Header) -> None:
        self._values = header.metadata
        self._asked: set[str] = set()
        self.architecture = self.text("general.architecture") or ""
        if not self.architecture:
            self.refuse("general.architecture", "is missing")
        self.parts: dict[str, tuple[int, ...]] = {}
        """``attn_q.weight`` to the shape of the first such tensor."""
        for tensor in header.tensors:
            part = _EXPERT.sub(".", _BLOCK.sub("", tensor.name))
            self.parts.setdefault(part, tensor.shape)

    def refuse(self, key: str, problem: str) -> Never:
        raise UnknownArchitecture(f"`{key[:200]}` {problem}", pointer=GGUF_POINTER)

    def key(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        return value if isinstance(value, str) else None

    def whole(self, key: str) -> int | None:
        """A whole number outside the architecture's keys; None where it is none."""
        value = self._values.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def has(self, part: str) -> bool:
        return part in self.parts

    def flags(self, name: str) -> list[bool] | None:
        """One for each layer, or None where the value is no list."""
        value = self._values.get(self.key(name))
        if isinstance(value, Skipped) or not isinstance(value, tuple):
            return None
        self._asked.add(name)
        return [bool(one) for one in value]

    def maybe_count(self, name: str) -> int | None:
        """Zero is absent; a list with the same number for each layer is that number."""
        key = self.key(name)
        self._asked.add(name)
        value = self._values.get(key)
        if isinstance(value, Skipped):
            self.refuse(key, "is not a whole number")
        if isinstance(value, tuple):
            if len(set(value)) != 1:
                self.refuse(key, "differs from layer to layer, which is not known")
            value = value[0]
        if value is None or value == 0:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(key, "is not a whole number")
        if not 0 < value <= LARGEST_COUNT:
            self.refuse(key, f"is not between 1 and {LARGEST_COUNT}")
        return value

    def count(self, name: str) -> int:
        found = self.maybe_count(name)
        if found is None:
            self.refuse(self.key(name), "is missing")
        return found

    def check_understood(self) -> None:
        prefix = f"{self.architecture}."
        for key in sorted(self._values):
            name = key.removeprefix(prefix)
            if name == key or name in self._asked or not CHANGES_MEMORY.match(name):
                continue
            if self._values[key] not in (0, False, "", ()):
                self.refuse(key, "changes memory, and is not known for this architecture")
