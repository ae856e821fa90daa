"""What does Ollama place on the devices, and what does it leave in system memory?

llama.cpp's terms under Ollama's settings: ``num_ctx x OLLAMA_NUM_PARALLEL`` cells of cache, a cache
type that needs flash attention, memory kept free by OLLAMA_GPU_OVERHEAD, and as many layers on the
devices as fit: it runs slowly instead of failing. From Ollama's FAQ, context-length and API
documents. Left out: its own estimate of what fits, which is more careful and differs by version;
vision projectors; several models at once.
"""

from typing import cast

import msgspec

from tonnage.engine.answer import InferenceFit, Ledger, Note
from tonnage.engine.case import InferenceCase, NamedCache
from tonnage.engine.eras import OllamaEra
from tonnage.engine.flags import LlamaCppFlags, OllamaFlags
from tonnage.engine.memory.runtimes import llama_cpp
from tonnage.engine.memory.runtimes.llama_cpp_terms import flash_attention, placement
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.memory.runtimes.verdict import bound_by, worst
from tonnage.engine.precision import CacheEncoding
from tonnage.engine.values import GIB

SIXTEEN_BITS = NamedCache("fp16", "float", CacheEncoding(bits_per_element=16))


def estimate(case: InferenceCase) -> InferenceFit:
    placed = placed_case(case)
    found = rank_ledgers(case)
    whole = as_llama_cpp(case)
    inner = llama_cpp.estimate(placed)
    return InferenceFit(
        verdict=worst(found),
        bound_by=bound_by(found),
        ledgers=tuple(found),
        capacity=llama_cpp.capacity(placed, llama_cpp.offloaded(placed)),
        host_bytes=inner.host_bytes,
        assumptions=_assumptions(case, whole),
        warnings=_warnings(case, placed),
    )


def rank_ledgers(case: InferenceCase) -> list[Ledger]:
    """The ledger of each device, with the layers that Ollama puts there."""
    return llama_cpp.rank_ledgers(placed_case(case))


def as_llama_cpp(case: InferenceCase) -> InferenceCase:
    """The same question to the llama.cpp inside, all layers on the devices unless stated."""
    flags, era = cast(OllamaFlags, case.flags), cast(OllamaEra, case.era)
    inner = msgspec.structs.replace(
        case,
        era=era.llama_cpp,
        flags=LlamaCppFlags(
            n_gpu_layers=flags.num_gpu,
            ubatch_size=flags.num_batch,
            flash_attn=flags.flash_attention,
            backend=flags.backend,
        ),
        in_use_bytes=case.in_use_bytes + flags.gpu_overhead_bytes,
    )
    if flash_attention(inner):
        return inner
    keys, values = _at_least_half(case.key_cache), _at_least_half(case.value_cache)
    return msgspec.structs.replace(inner, key_cache=keys, value_cache=values)


def _at_least_half(cache: NamedCache) -> NamedCache:
    return SIXTEEN_BITS if cache.encoding.bits_per_element < 16 else cache


def placed_case(case: InferenceCase) -> InferenceCase:
    """With the layers that Ollama puts on the devices: those asked for, or all that fit."""
    inner = as_llama_cpp(case)
    flags = cast(LlamaCppFlags, inner.flags)
    if flags.n_gpu_layers is not None:
        return inner
    llama_cpp.check(inner)
    layers = llama_cpp.most_layers(inner)
    return msgspec.structs.replace(inner, flags=msgspec.structs.replace(flags, n_gpu_layers=layers))


def default_context(case: InferenceCase) -> int:
    """The context of a server that is not told one, by the memory of its devices together."""
    era = cast(OllamaEra, case.era)
    whole = usable(case.accelerator).expected_bytes * case.count / GIB
    label = case.accelerator.marketed_memory_bytes * case.count / GIB
    return next(
        tier.tokens for tier in era.contexts if max(whole, label) >= tier.smallest_total_gib
    )


def _assumptions(case: InferenceCase, inner: InferenceCase) -> tuple[Note, ...]:
    sequences = case.workload.concurrent_sequences
    return (
        Note(
            code="ollama_settings",
            text=f"num_ctx {case.workload.context_tokens}, OLLAMA_NUM_PARALLEL {sequences}, flash "
            f"attention {'on' if flash_attention(inner) else 'off'}, one model loaded; layers are "
            "placed by this service's count, Ollama's own is more careful.",
        ),
    )


def _warnings(case: InferenceCase, placed: InferenceCase) -> tuple[Note, ...]:
    era, workload = cast(OllamaEra, case.era), case.workload
    found = []
    layers = placement(placed)
    on_devices, everything = layers.layers + layers.output, case.model.layer_count + 1
    if on_devices < everything:
        found.append(
            Note(
                code="layers_in_system_memory",
                text=f"Ollama runs with {on_devices} of {everything} layers on the accelerators; "
                "the rest runs from system memory, many times slower.",
                pointer="/runtime/flags/num_gpu",
            )
        )
    default = default_context(case)
    if workload.context_tokens > default:
        found.append(
            Note(
                code="num_ctx_must_be_set",
                text=f"Ollama starts with a context of {default} tokens on these accelerators and "
                f"cuts longer prompts: set num_ctx or OLLAMA_CONTEXT_LENGTH to "
                f"{workload.context_tokens}.",
                pointer="/workload/context_tokens",
            )
        )
    if workload.concurrent_sequences > era.parallel:
        found.append(
            Note(
                code="num_parallel_must_be_set",
                text=f"Ollama serves {era.parallel} at once unless OLLAMA_NUM_PARALLEL is "
                f"{workload.concurrent_sequences}.",
                pointer="/workload/concurrent_sequences",
            )
        )
    if placed.key_cache != case.key_cache or placed.value_cache != case.value_cache:
        found.append(
            Note(
                code="cache_type_is_ignored",
                text=f"A cache in {case.key_cache.id} needs flash attention, which is off: it is "
                "kept in fp16.",
                pointer="/formats/kv_cache",
            )
        )
    return tuple(found)
