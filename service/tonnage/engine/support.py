"""Do runtime, number format and device support each other?

Answered from the catalog's support facts. ``unknown`` is said where the facts are silent, with what
to verify; silence is never read as yes.
"""

from functools import lru_cache
from typing import NamedTuple

import msgspec

from .answer import Note, Support
from .case import InferenceCase
from .hardware import Accelerator, Stack
from .model import ModelPart
from .runtime import FormatSupport, Runtime
from .version import parse_version


class SupportAnswer(msgspec.Struct, frozen=True, kw_only=True):
    runtime_on_device: Support
    format_on_device: Support
    cache_format_on_device: Support
    model_on_runtime: Support
    notes: tuple[Note, ...] = ()


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def support(case: InferenceCase) -> SupportAnswer:
    return _support(
        case.runtime,
        case.version,
        case.accelerator,
        (case.weights.id, case.weights.family),
        case.key_cache.id,
        case.value_cache.id,
        case.model.parts,
    )


class _Asked(NamedTuple):
    runtime: Runtime
    version: str
    device: Accelerator


@lru_cache(maxsize=4096)
def _support(
    runtime: Runtime,
    version: str,
    device: Accelerator,
    weights: tuple[str, str],
    keys: str,
    values: str,
    parts: tuple[ModelPart, ...],
) -> SupportAnswer:
    asked = _Asked(runtime, version, device)
    notes: list[Note] = []
    on_device, stack = _runtime_on_device(runtime, device, notes)
    facts = runtime.format_support
    held = facts.get(weights[0]) or facts.get(weights[1])
    caches = [_cache_format(asked, cache, stack, notes) for cache in dict.fromkeys((keys, values))]
    return SupportAnswer(
        runtime_on_device=on_device,
        format_on_device=_format(asked, weights[0], held, stack, notes),
        cache_format_on_device=min(caches, key=_WORST_FIRST.index),
        model_on_runtime=_model(runtime, parts, notes),
        notes=tuple(notes),
    )


def _model(runtime: Runtime, parts: tuple[ModelPart, ...], notes: list[Note]) -> Support:
    """Whether the runtime is known to run what the model is made of."""
    silent = [part.replace("_", " ") for part in parts if part not in runtime.model_parts]
    if not silent:
        return "yes"
    notes.append(
        Note(
            code="verify_model",
            text=f"The catalog is silent on whether {runtime.name} runs a model with "
            f"{' and '.join(silent)}: verify it.",
            pointer="/model",
        )
    )
    return "unknown"


_WORST_FIRST: tuple[Support, ...] = ("no", "unknown", "limited", "yes")
_SIXTEEN_BIT_CACHES = frozenset({"bf16", "fp16"})


def _cache_format(asked: _Asked, format_id: str, stack: Stack | None, notes: list[Note]) -> Support:
    if format_id in _SIXTEEN_BIT_CACHES:
        return "yes" if stack else "unknown"
    name = f"kv-{format_id}"
    return _format(asked, name, asked.runtime.format_support.get(name), stack, notes)


def _runtime_on_device(
    runtime: Runtime, device: Accelerator, notes: list[Note]
) -> tuple[Support, Stack | None]:
    facts = runtime.stack_support
    known = [facts[stack] for stack in device.stacks if stack in facts]
    usable = [entry for entry in known if entry.level != "no"]
    if not device.stacks:
        notes.append(
            Note(
                code="verify_device_stack",
                text=f"No software stack is stated for {device.name}: verify that "
                f"{runtime.name} runs on it.",
                pointer="/hardware/accelerator",
            )
        )
        return "unknown", None
    if not usable:
        notes.append(
            Note(
                code="runtime_not_on_device",
                text=f"{runtime.name} lists no support for {' or '.join(device.stacks)}.",
                pointer="/runtime/name",
            )
        )
        return "no", None
    best = usable[0]
    least = _capability(runtime.least_compute_capability)
    if best.stack == "cuda" and least and device.capability and device.capability < least:
        notes.append(
            Note(
                code="compute_capability_too_low",
                text=f"{runtime.name} asks for compute capability "
                f"{runtime.least_compute_capability}; {device.name} has "
                f"{device.compute_capability}. Older releases may run: verify.",
                pointer="/runtime/version",
            )
        )
        return "no", best.stack
    target = device.gfx_target
    if best.stack == "rocm" and runtime.gfx_targets and target not in runtime.gfx_targets:
        notes.append(
            Note(
                code="gfx_target_not_listed",
                text=f"{runtime.name} lists {', '.join(runtime.gfx_targets)} on ROCm; "
                f"{device.name} is {target or 'of a target that is not stated'}.",
                pointer="/hardware/accelerator",
            )
        )
        return ("no" if target else "unknown"), best.stack
    if best.level != "official":
        notes.append(
            Note(
                code="runtime_support_is_limited",
                text=f"{runtime.name} on {best.stack} is {best.level.replace('_', ' ')}"
                + (f": {best.note}" if best.note else "."),
                pointer="/runtime/name",
            )
        )
        return "limited", best.stack
    return "yes", best.stack


def _format(
    asked: _Asked,
    format_id: str,
    entry: FormatSupport | None,
    stack: Stack | None,
    notes: list[Note],
) -> Support:
    if entry is None:
        notes.append(
            Note(
                code="verify_format",
                text=f"The catalog is silent on {format_id} under {asked.runtime.name}: verify it.",
                pointer="/formats",
            )
        )
        return "unknown"
    if stack is None:
        return "unknown"
    if stack not in entry.stacks:
        notes.append(
            Note(
                code="format_not_on_stack",
                text=f"{asked.runtime.name} lists {format_id} for {', '.join(entry.stacks)}, "
                f"not for {stack}.",
                pointer="/formats",
            )
        )
        return "no"
    if entry.since and parse_version(asked.version) < parse_version(entry.since):
        notes.append(
            Note(
                code="format_is_newer_than_runtime",
                text=f"{asked.runtime.name} has {format_id} from {entry.since} on.",
                pointer="/runtime/version",
            )
        )
        return "no"
    return _on_capability(asked.device, entry, format_id, stack, notes)


def _on_capability(
    device: Accelerator, entry: FormatSupport, format_id: str, stack: Stack, notes: list[Note]
) -> Support:
    least = _capability(entry.least_compute_capability)
    if stack == "rocm" and entry.gfx_targets and device.gfx_target not in entry.gfx_targets:
        notes.append(
            Note(
                code="format_not_on_gfx_target",
                text=f"{format_id} is for {', '.join(entry.gfx_targets)}; {device.name} is "
                f"{device.gfx_target or 'of a target that is not stated'}.",
                pointer="/formats",
            )
        )
        return "no" if device.gfx_target else "unknown"
    if stack != "cuda" or least is None:
        return "yes"
    if device.capability is None:
        notes.append(
            Note(
                code="verify_compute_capability",
                text=f"{format_id} needs compute capability {entry.least_compute_capability}; "
                f"that of {device.name} is not stated.",
                pointer="/hardware/accelerator",
            )
        )
        return "unknown"
    if device.capability >= least:
        return "yes"
    fallback = _capability(entry.weight_only_from)
    if fallback and device.capability >= fallback:
        notes.append(
            Note(
                code="format_is_weight_only",
                text=f"{format_id} is weight-only on compute capability "
                f"{device.compute_capability}: memory is saved, compute stays 16 bit.",
                pointer="/formats/weights",
            )
        )
        return "limited"
    notes.append(
        Note(
            code="compute_capability_too_low_for_format",
            text=f"{format_id} needs compute capability {entry.least_compute_capability}; "
            f"{device.name} has {device.compute_capability}.",
            pointer="/formats",
        )
    )
    return "no"
