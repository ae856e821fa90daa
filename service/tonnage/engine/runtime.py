"""Runtimes: what a release's accounting, defaults and support are.

A runtime's history is a list of eras, each the rules from one version on until the next era.
"""

from functools import cached_property
from typing import Literal

from .answer import OutcomeCode
from .eras import Era, Text
from .hardware import Capability, Stack
from .model import ModelPart
from .values import ShortText, Value
from .version import parse_version

Accounting = Literal[
    "vllm",
    "sglang",
    "tensorrt-llm",
    "tgi",
    "llama.cpp",
    "transformers",
    "ollama",
    "mlx-lm",
    "exllama",
]
Level = Literal["official", "plugin", "experimental", "cpu_only", "no"]


class Message(Value, frozen=True, kw_only=True):
    """What a runtime prints in an outcome, from a version on.

    ``{needed}`` and ``{available}`` stand for GiB, ``{length}``, ``{longest}`` and ``{tokens}`` for
    tokens.
    """

    code: OutcomeCode
    since: ShortText
    text: Text


class StackSupport(Value, frozen=True, kw_only=True):
    stack: Stack
    level: Level
    note: Text | None = None


class FormatSupport(Value, frozen=True, kw_only=True):
    """Where a runtime computes with a weight or cache format, and from which version on."""

    format: ShortText
    stacks: tuple[Stack, ...]
    least_compute_capability: Capability | None = None
    gfx_targets: tuple[ShortText, ...] = ()
    """On ROCm, the targets that compute with it; none stated is all that the runtime runs on."""
    weight_only_from: Capability | None = None
    """Below ``least_compute_capability``, from here on: memory is saved, compute stays 16 bit."""
    since: ShortText | None = None
    note: Text | None = None


class DataFlow(Value, frozen=True, kw_only=True):
    """Something that leaves (or enters) the machine under the runtime's defaults."""

    what: Text
    destination: Text
    when: Text
    by_default: bool
    switch_off: Text


class Runtime(Value, frozen=True, kw_only=True, dict=True, cache_hash=True):
    id: ShortText
    name: ShortText
    accounting: Accounting | None = None
    """None: listed for its support facts; its memory is not modelled yet."""
    default_version: ShortText | None = None
    eras: tuple[Era, ...] = ()
    """Oldest first."""
    stacks: tuple[StackSupport, ...] = ()
    least_compute_capability: Capability | None = None
    gfx_targets: tuple[ShortText, ...] = ()
    version_style: Literal["numbers", "builds"] = "numbers"
    """``0.11.0``, or a build number as ``b6500``."""
    formats: tuple[FormatSupport, ...] = ()
    data_flows: tuple[DataFlow, ...] = ()
    model_parts: tuple[ModelPart, ...] = ()
    """What a model may have beside plain decoder layers; on other parts the facts are silent."""
    messages: tuple[Message, ...] = ()
    """Oldest first."""

    @cached_property
    def stack_support(self) -> dict[Stack, StackSupport]:
        return {entry.stack: entry for entry in self.stacks}

    @cached_property
    def format_support(self) -> dict[str, FormatSupport]:
        return {entry.format: entry for entry in self.formats}

    def era(self, version: str) -> Era | None:
        """The rules that hold for a version; None for one older than the first era."""
        wanted = parse_version(version)
        for since, era in self._newest_first:
            if since <= wanted:
                return era
        return None

    @cached_property
    def _newest_first(self) -> list[tuple[tuple[int, ...], Era]]:
        return [(parse_version(era.since), era) for era in reversed(self.eras)]
