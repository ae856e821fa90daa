"""Reading a configuration that anyone may have written: typed, and refused by field.

A reader remembers what was asked for. A field that changes memory and that no builder asked about
is one the importer does not understand, and the configuration is refused for it.
"""

from typing import Any, Never

from tonnage.engine.errors import UnknownArchitecture
from tonnage.engine.values import LARGEST_COUNT

Switch = bool | tuple[str, bool]
"""A habit of the family, or the field that decides it with the value it has when absent."""

CHANGES_MEMORY = frozenset(
    {
        "altup_num_inputs",
        "attention_chunk_size",
        "audio_config",
        "block_configs",
        "compress_ratios",
        "cross_attention_layers",
        "d_conv",
        "d_ssm",
        "dense_mlp_idx",
        "ffn_config",
        "full_attention_interval",
        "global_head_dim",
        "hidden_size_per_layer_input",
        "hybrid_layer_pattern",
        "hybrid_override_pattern",
        "kv_lora_rank",
        "laurel_rank",
        "layer_types",
        "layers_block_type",
        "moe_every_n_layers",
        "moe_latent_size",
        "moe_num_experts",
        "n_routed_experts",
        "num_experts",
        "num_global_key_value_heads",
        "num_kv_shared_layers",
        "num_local_experts",
        "num_memory_blocks",
        "o_lora_rank",
        "q_lora_rank",
        "qk_layernorm",
        "shared_expert_intermediate_size",
        "shared_intermediate_size",
        "short_conv_kernel_size",
        "sliding_window",
        "sliding_window_pattern",
        "sparse_attention_config",
        "state_size",
        "text_config",
        "use_cla",
        "vision_config",
        "vocab_size_per_layer_input",
    }
)
CHANGES_MEMORY_PREFIXES = ("conv_L_", "index_", "linear_", "lin_attn_", "mamba_", "ssm_", "swa_")
NO_SHAPE = frozenset(
    {
        "linear_attn_alpha_factor",
        "linear_attn_beta_factor",
        "linear_attn_type",
        "mamba_chunk_size",
        "mamba_hidden_act",
        "mamba_ssm_cache_dtype",
        "ssm_in_multiplier",
        "ssm_multipliers",
        "ssm_out_multiplier",
        "swa_rope_theta",
    }
)
"""Names that look as if they changed memory and do not."""


class Fields:
    """One JSON object of a configuration, at its JSON pointer."""

    def __init__(self, values: dict[str, Any], pointer: str = "") -> None:
        self._values = values
        self._asked: set[str] = set()
        self._children: list[Fields] = []
        self.pointer = pointer

    def refusal(self, name: str, problem: str) -> UnknownArchitecture:
        return UnknownArchitecture(
            f"`{name}` {problem}", pointer=f"{self.pointer}/{_escaped(name)}"
        )

    def refuse(self, name: str, problem: str) -> Never:
        raise self.refusal(name, problem)

    def raw(self, name: str) -> Any:
        self._asked.add(name)
        return self._values.get(name)

    def states(self, name: str) -> bool:
        """The field is there, be it null."""
        return name in self._values

    def ignore(self, *names: str) -> None:
        """The field is known, and says nothing about this architecture's memory."""
        self._asked.update(names)

    def overridden(self, values: dict[str, Any]) -> "Fields":
        """The same object with some values replaced; what it is asked counts for this one too."""
        same = Fields({**self._values, **values}, self.pointer)
        same._asked = self._asked
        same._children = self._children
        return same

    def defaults(self, values: dict[str, Any]) -> None:
        """Values that the library's configuration class fills in for fields left out."""
        self._values = {**values, **self._values}

    def maybe_count(self, *names: str) -> int | None:
        """The first of the names that is there; zero and null are absent."""
        for name in names:
            value = self.raw(name)
            if value is None or value == 0:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                self.refuse(name, "is not a whole number")
            if not 0 < value <= LARGEST_COUNT:
                self.refuse(name, f"is not between 1 and {LARGEST_COUNT}")
            return value
        return None

    def count(self, *names: str) -> int:
        found = self.maybe_count(*names)
        if found is None:
            self.refuse(names[0], "is missing")
        return found

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, "is not true or false")
        return value

    def switch(self, switch: Switch) -> bool:
        return switch if isinstance(switch, bool) else self.flag(*switch)

    def maybe_text(self, name: str) -> str | None:
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            self.refuse(name, "is not a text")
        return value

    def maybe_list(self, name: str, length: int | None = None) -> list[Any] | None:
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, list):
            self.refuse(name, "is not a list")
        if length is not None and len(value) != length:
            self.refuse(name, f"has {len(value)} entries for {length} layers")
        return value

    def maybe_counts(self, name: str, length: int | None = None) -> list[int] | None:
        """A list of whole numbers from zero up; booleans count as 0 and 1."""
        values = self.maybe_list(name, length)
        if values is None:
            return None
        for position, value in enumerate(values):
            if not isinstance(value, int) or not 0 <= value <= LARGEST_COUNT:
                self.refuse_entry(name, position, "is not a whole number")
        return [int(value) for value in values]

    def refuse_entry(self, name: str, position: int, problem: str) -> Never:
        raise UnknownArchitecture(
            f"entry {position} of `{name}` {problem}",
            pointer=f"{self.pointer}/{_escaped(name)}/{position}",
        )

    def maybe_child(self, name: str) -> "Fields | None":
        value = self.raw(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            self.refuse(name, "is not an object")
        child = Fields(value, f"{self.pointer}/{_escaped(name)}")
        self._children.append(child)
        return child

    def child(self, name: str) -> "Fields":
        found = self.maybe_child(name)
        if found is None:
            self.refuse(name, "is missing")
        return found

    def check_understood(self) -> None:
        """Refuse the first field that changes memory and that nobody asked about."""
        for name in sorted(self._values.keys() - self._asked - NO_SHAPE):
            telling = name in CHANGES_MEMORY or name.startswith(CHANGES_MEMORY_PREFIXES)
            if telling and self._values[name] not in (None, False, 0, [], {}, ""):
                self.refuse(name, "changes memory, and is not known for this `model_type`")
        for child in self._children:
            child.check_understood()


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
