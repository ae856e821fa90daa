"""What must hold for every question, whatever the model, device and layout."""

from collections.abc import Callable
from math import ceil
from time import process_time

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from tests.engine.strategies import (
    TENSOR_PARALLEL,
    any_case,
    architectures,
    cache_bits,
    cases,
    latent_attentions,
    runtime,
    weight_encodings,
)
from tonnage.engine.answer import InferenceFit, Verdict
from tonnage.engine.attention import Attention, LatentAttention, SparseIndex
from tonnage.engine.caches import StateCache, TokenCache
from tonnage.engine.case import InferenceCase, NamedCache, NamedWeights
from tonnage.engine.eras import VllmEra
from tonnage.engine.errors import Contradiction
from tonnage.engine.estimate import Estimate, total
from tonnage.engine.feed_forward import Dense
from tonnage.engine.fit import fit_inference, inference_verdict
from tonnage.engine.flags import (
    ExllamaFlags,
    Flags,
    LlamaCppFlags,
    MlxFlags,
    OllamaFlags,
    SglangFlags,
    TensorRtLlmFlags,
    TgiFlags,
    TransformersFlags,
    VllmFlags,
)
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.memory.kv_cache import state_bytes, token_bytes
from tonnage.engine.memory.pages import paged_cache
from tonnage.engine.memory.usable import usable_memory
from tonnage.engine.memory.weights import layer_bytes, stage_weights, stages
from tonnage.engine.model import Layer, ModelArchitecture, Segment
from tonnage.engine.precision import CacheEncoding, WeightEncoding
from tonnage.engine.runtime import Accounting
from tonnage.engine.state_space import ShortConvolution
from tonnage.engine.values import GIB, MIB, round_up
from tonnage.engine.workload import InferenceWorkload, Parallelism

laws = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

WORST_FIRST: tuple[Verdict, ...] = ("does_not_fit", "tight", "fits")


def rank(verdict: Verdict) -> int:
    return WORST_FIRST.index(verdict)


def changed(case: InferenceCase, **changes: object) -> InferenceCase:
    return msgspec.structs.replace(case, **changes)


def asked(
    case: InferenceCase, *, context: int | None = None, sequences: int | None = None
) -> InferenceCase:
    workload = case.workload
    return changed(
        case,
        workload=msgspec.structs.replace(
            workload,
            context_tokens=context or workload.context_tokens,
            concurrent_sequences=sequences or workload.concurrent_sequences,
        ),
    )


def with_flags(case: InferenceCase, **flags: object) -> InferenceCase:
    return changed(case, flags=msgspec.structs.replace(case.flags, **flags))


def least_free(fit: InferenceFit) -> Estimate:
    """What is left on the fullest accelerator, in each of the three readings."""
    frees = [ledger.free for ledger in fit.ledgers]
    return Estimate(
        min(free.low for free in frees),
        min(free.expected for free in frees),
        min(free.high for free in frees),
    )


def in_order(amount: Estimate) -> bool:
    return amount.low <= amount.expected <= amount.high


# --- the ledger


@laws
@given(any_case)
def test_a_ledger_adds_up(case: InferenceCase) -> None:
    for ledger in fit_inference(case).ledgers:
        held = total([entry.bytes for entry in ledger.components])
        assert ledger.usable == held.low + ledger.free.high
        assert ledger.usable == held.expected + ledger.free.expected
        assert ledger.usable == held.high + ledger.free.low


@laws
@given(any_case)
def test_every_interval_is_in_order(case: InferenceCase) -> None:
    fit = fit_inference(case)
    for ledger in fit.ledgers:
        assert in_order(ledger.free)
        for entry in ledger.components:
            assert in_order(entry.bytes), entry.name
            assert entry.bytes.low >= 0, entry.name
            assert entry.source
    capacity = fit.capacity
    for amount in (capacity.kv_tokens, capacity.sequences_at_context, capacity.longest_context):
        assert in_order(amount)
        assert amount.low >= 0
    assert fit.host_bytes >= 0


@laws
@given(any_case)
def test_each_component_is_named_once_and_binds_only_where_it_is(case: InferenceCase) -> None:
    fit = fit_inference(case)
    for ledger in fit.ledgers:
        names = [entry.name for entry in ledger.components]
        assert len(names) == len(set(names))
    assert any(fit.bound_by == e.name for ledger in fit.ledgers for e in ledger.components) or (
        fit.bound_by == "kv_cache"
    )


@laws
@given(any_case)
def test_the_verdict_is_that_of_the_fullest_accelerator(case: InferenceCase) -> None:
    fit = fit_inference(case)
    free = least_free(fit)
    expected = "fits" if free.low >= 0 else "tight" if free.expected >= 0 else "does_not_fit"
    refused = any(ledger.refusal for ledger in fit.ledgers)
    assert fit.verdict == ("does_not_fit" if refused else expected)
    assert inference_verdict(case) == fit.verdict


@laws
@given(any_case)
def test_the_outcome_agrees_with_the_verdict(case: InferenceCase) -> None:
    fit = fit_inference(case)
    assert fit.outcome is not None
    code = fit.outcome.code
    if fit.verdict == "fits":
        assert code == "starts"
    elif fit.verdict == "tight":
        assert code == "starts_and_may_run_out"
    else:
        assert code not in ("starts", "starts_and_may_run_out")
    for ledger in fit.ledgers:
        assert 0 <= ledger.start_bytes <= ledger.amount("kv_cache").expected


@laws
@given(any_case)
def test_every_rank_is_in_one_ledger(case: InferenceCase) -> None:
    fit = fit_inference(case)
    listed = [index for ledger in fit.ledgers for index in ledger.accelerators]
    assert len(listed) == len(set(listed))
    assert all(0 <= index < case.count for index in listed)
    ranked = case.runtime.accounting in TENSOR_PARALLEL
    wanted = case.parallel.ranks if ranked else case.count
    assert len(listed) == wanted


# --- weights


def _padding(model: ModelArchitecture, encoding: WeightEncoding, ranks: int) -> float:
    """Rounding of every module to whole parameters and bytes, and rows added to the vocabulary."""
    widest = max(encoding.bits(role) for role in ("norm", "embedding", "output_head", "query"))
    modules = sum(
        len(model.layer_modules[name]) * count for name, count in model.layer_counts.items()
    )
    rounding = (modules + len(model.extras) + 3) * ranks * (4 + 1)
    rows = 64 * ranks * model.hidden_size * 2 * widest / 8
    return rounding + rows


def _replicated(model: ModelArchitecture, encoding: WeightEncoding, ranks: int) -> float:
    """Bytes that a rank beyond the first holds again, on average over the ranks beyond it."""
    amount = 0.0
    for name, modules in model.layer_modules.items():
        for module in modules:
            own = module.parameters * encoding.bits(module.role) / 8 * model.layer_counts[name]
            if module.shard == "replicated":
                amount += own * (ranks - 1)
            elif module.shard == "kv_heads":
                amount += own * (ranks / min(ranks, module.kv_heads) - 1)
    for extra in model.extras:
        if extra.loaded and extra.shard == "replicated":
            amount += extra.parameters * encoding.bits(extra.role) / 8 * (ranks - 1)
    return amount + model.hidden_size * model.final_norm * encoding.bits("norm") / 8 * (ranks - 1)


@laws
@given(architectures(), weight_encodings, st.sampled_from([1, 2, 3, 4, 8, 16]))
def test_the_ranks_hold_the_model_and_no_more_than_they_must_copy(
    model: ModelArchitecture, encoding: WeightEncoding, ranks: int
) -> None:
    (whole,) = stage_weights(model, encoding, 1, 1, 1)
    (one,) = stage_weights(model, encoding, ranks, 1, ranks)
    assert one * ranks >= whole - _padding(model, encoding, 1)
    most = whole + _replicated(model, encoding, ranks) + _padding(model, encoding, ranks)
    assert one * ranks <= most


@laws
@given(architectures(), weight_encodings, st.integers(1, 12))
def test_pipeline_stages_hold_the_model_once(
    model: ModelArchitecture, encoding: WeightEncoding, pipeline: int
) -> None:
    assume(pipeline <= model.layer_count)
    (whole,) = stage_weights(model, encoding, 1, 1, 1)
    parts = stage_weights(model, encoding, 1, pipeline, 1)
    assert len(parts) == pipeline
    again = 0
    if model.tied_embeddings and pipeline > 1:
        rows = round_up(model.vocabulary_size, 64)
        again = ceil(rows * model.hidden_size * encoding.embedding_bits(True) / 8)
    assert sum(parts) == whole + again


@laws
@given(architectures(), st.integers(1, 12))
def test_every_layer_is_in_one_stage(model: ModelArchitecture, pipeline: int) -> None:
    assume(pipeline <= model.layer_count)
    found: dict[str, int] = {}
    sizes = []
    for stage in stages(model, pipeline):
        sizes.append(sum(stage.values()))
        for name, count in stage.items():
            found[name] = found.get(name, 0) + count
    assert found == model.layer_counts
    assert max(sizes) - min(sizes) <= 1


@laws
@given(architectures())
def test_sixteen_bit_weights_are_two_bytes_a_parameter(model: ModelArchitecture) -> None:
    (whole,) = stage_weights(model, WeightEncoding(bits_per_weight=16), 1, 1, 1)
    added_rows = round_up(model.vocabulary_size, 64) - model.vocabulary_size
    tables = 1 if model.tied_embeddings else 2
    assert whole == 2 * (model.parameters + added_rows * model.hidden_size * tables)


@laws
@given(architectures(), weight_encodings, st.sampled_from([1, 2, 4]))
def test_more_ranks_never_make_a_rank_heavier(
    model: ModelArchitecture, encoding: WeightEncoding, ranks: int
) -> None:
    fewer = layer_bytes(model, encoding, ranks, ranks)
    more = layer_bytes(model, encoding, 2 * ranks, 2 * ranks)
    assert all(more[name] <= fewer[name] for name in fewer)


# --- caches


@laws
@given(
    st.integers(1, 128),
    st.integers(1, 20),
    st.integers(0, 20),
    st.integers(1, 64),
    cache_bits,
    cache_bits,
)
def test_token_bytes_over_the_ranks_are_at_least_the_whole(
    heads: int, key: int, value: int, ranks: int, key_bits: float, value_bits: float
) -> None:
    cache = TokenCache(heads=heads, key_elements=32 * key, value_elements=32 * value)
    whole, one = (token_bytes(cache, n, key_bits, value_bits) for n in (1, ranks))
    assert one * ranks >= whole
    if heads % ranks == 0:
        assert one * ranks == whole
    assert one >= whole / heads


@laws
@given(latent_attentions(16), st.integers(1, 64), cache_bits)
def test_latent_attention_is_cached_whole_on_every_tensor_rank(
    mixer: object, ranks: int, bits: float
) -> None:
    cache = mixer.cache(1024)  # type: ignore[attr-defined]
    assert isinstance(cache, TokenCache)
    assert token_bytes(cache, ranks, bits, bits) == token_bytes(cache, 1, bits, bits)


@laws
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 64))
def test_state_bytes_over_the_ranks_are_at_least_the_whole(
    convolution: int, recurrent: int, heads: int, ranks: int
) -> None:
    cache = StateCache(
        convolution_elements=convolution * heads, recurrent_elements=recurrent * heads, heads=heads
    )
    assert state_bytes(cache, ranks) * ranks >= state_bytes(cache, 1)
    if heads % ranks == 0:
        assert state_bytes(cache, ranks) * ranks == state_bytes(cache, 1)


@st.composite
def stages_of(draw: st.DrawFn) -> tuple[ModelArchitecture, int, float, float, int, bool]:
    return (
        draw(architectures()),
        draw(st.sampled_from([1, 2, 4, 8])),
        draw(cache_bits),
        draw(cache_bits),
        draw(st.sampled_from([1, 16, 64])),
        draw(st.booleans()),
    )


@laws
@given(stages_of(), st.integers(1, 200_000), st.sampled_from([1, 100, 2048]))
def test_pages_hold_at_least_what_the_layers_keep(
    stage: tuple[ModelArchitecture, int, float, float, int, bool], tokens: int, batched: int
) -> None:
    model, tensor, key, value, block, windowed = stage
    layers = tuple(model.layer_counts.items())
    pages = paged_cache(model, layers, tensor, key, value, block, windowed=windowed)
    kept = 0
    for name, count in model.layer_counts.items():
        for cache in model.layer_caches[name]:
            if isinstance(cache, StateCache):
                kept += count * state_bytes(cache, tensor)
                continue
            seen = tokens
            if windowed and cache.window_tokens:
                seen = min(tokens, cache.window_tokens)
            kept += count * seen * token_bytes(cache, tensor, key, value)
    assert pages.blocks(tokens, batched) * pages.block_bytes >= kept


@laws
@given(stages_of(), st.integers(1, 50_000), st.sampled_from([1, 100, 2048]))
def test_blocks_grow_with_tokens_and_invert(
    stage: tuple[ModelArchitecture, int, float, float, int, bool], tokens: int, batched: int
) -> None:
    model, tensor, key, value, block, windowed = stage
    layers = tuple(model.layer_counts.items())
    pages = paged_cache(model, layers, tensor, key, value, block, windowed=windowed)
    needed = pages.blocks(tokens, batched)
    assert pages.blocks(tokens + 1, batched) >= needed
    assert pages.blocks(tokens, batched + 1) >= needed
    longest = pages.longest(needed, batched, 10**6)
    assert longest >= tokens
    assert pages.blocks(longest, batched) <= needed
    assert longest == 10**6 or pages.blocks(longest + 1, batched) > needed


@laws
@given(cases("vllm"))
def test_what_is_promised_is_within_the_pool(case: InferenceCase) -> None:
    fit = fit_inference(case)
    assert isinstance(case.flags, VllmFlags)
    block = case.flags.block_size or 16
    for ledger, layers in zip(fit.ledgers, stages(case.model, case.parallel.pipeline), strict=True):
        cached = ledger.amount("kv_cache")
        pool = ledger.free + cached
        assert isinstance(case.era, VllmEra)
        windowed = case.era.local_layers == "windowed"
        pages = paged_cache(
            case.model,
            tuple(layers.items()),
            case.parallel.tensor,
            case.key_cache.encoding.bits_per_element,
            case.value_cache.encoding.bits_per_element,
            block,
            windowed=windowed and not case.flags.disable_hybrid_kv_cache_manager,
        )
        per_sequence = pages.blocks(
            case.workload.context_tokens, case.flags.max_num_batched_tokens or 0
        )
        for held, bytes_left in (
            (fit.capacity.sequences_at_context.low, pool.low),
            (fit.capacity.sequences_at_context.expected, pool.expected),
            (fit.capacity.sequences_at_context.high, pool.high),
        ):
            replica = held // case.parallel.data
            assert replica * per_sequence * pages.block_bytes <= max(bytes_left, 0)
        if pages.group_count == 1 and not pages.groups[0].is_state:
            tokens = fit.capacity.kv_tokens.expected // case.parallel.data
            assert tokens % block == 0 or len(fit.ledgers) > 1
            printed = fit.capacity.kv_cache_bytes.expected
            assert tokens // block * pages.block_bytes <= max(printed, 0)


@laws
@given(cases("vllm"), st.integers(2, 300), st.floats(0, 1))
def test_a_common_prefix_is_kept_once(case: InferenceCase, sequences: int, share: float) -> None:
    """Never more than without it, and what is promised with it still holds."""
    alone = asked(case, sequences=sequences)
    prefix = int(share * case.workload.context_tokens)
    workload = msgspec.structs.replace(alone.workload, shared_prefix_tokens=prefix)
    shared = changed(alone, workload=workload)
    before, after = fit_inference(alone), fit_inference(shared)
    assume(all(ledger.amount("kv_cache").expected for ledger in before.ledgers))
    for one, two in zip(before.ledgers, after.ledgers, strict=True):
        assert two.amount("kv_cache").expected <= one.amount("kv_cache").expected
    _confirm(
        after.capacity.sequences_at_context, 10**9, lambda amount: asked(shared, sequences=amount)
    )


# --- monotony


@laws
@given(any_case, st.integers(1, 131_072))
def test_more_context_never_needs_less(case: InferenceCase, more: int) -> None:
    longer = min(case.workload.context_tokens + more, case.model.longest_context_tokens)
    before, after = fit_inference(case), fit_inference(asked(case, context=longer))
    _never_better(before, after)
    assert after.host_bytes >= before.host_bytes


@laws
@given(any_case, st.integers(1, 500))
def test_more_sequences_never_need_less(case: InferenceCase, more: int) -> None:
    busier = asked(case, sequences=case.workload.concurrent_sequences + more)
    _never_better(fit_inference(case), fit_inference(busier))


@laws
@given(cases("vllm"), st.sampled_from([1, 100, 5000]), st.sampled_from([1, 64, 1000]))
def test_larger_batches_never_need_less(case: InferenceCase, tokens: int, seqs: int) -> None:
    flags = case.flags
    assert isinstance(flags, VllmFlags)
    before = fit_inference(case)
    for larger in (
        with_flags(case, max_num_batched_tokens=(flags.max_num_batched_tokens or 0) + tokens),
        with_flags(case, max_num_seqs=(flags.max_num_seqs or 0) + seqs),
    ):
        _never_better(before, fit_inference(larger))


@laws
@given(cases("llama.cpp"), st.sampled_from([1, 256, 4096]))
def test_a_larger_micro_batch_never_needs_less(case: InferenceCase, more: int) -> None:
    flags = case.flags
    assert isinstance(flags, LlamaCppFlags)
    larger = with_flags(case, ubatch_size=(flags.ubatch_size or 512) + more)
    _never_better(fit_inference(case), fit_inference(larger))


def _never_better(before: InferenceFit, after: InferenceFit) -> None:
    for old, new in zip(before.ledgers, after.ledgers, strict=True):
        assert new.free.low <= old.free.low
        assert new.free.expected <= old.free.expected
        assert new.free.high <= old.free.high
    assert rank(after.verdict) <= rank(before.verdict)


@laws
@given(any_case, st.integers(1, 64 * 1024))
def test_a_bigger_device_never_worsens(case: InferenceCase, mib: int) -> None:
    device, more = case.accelerator, mib * MIB
    usable = device.usable_memory
    bigger = msgspec.structs.replace(
        device,
        marketed_memory_bytes=device.marketed_memory_bytes + more,
        usable_memory=usable
        and UsableMemory(
            low_bytes=usable.low_bytes + more,
            expected_bytes=usable.expected_bytes + more,
            high_bytes=usable.high_bytes + more,
        ),
    )
    before, after = fit_inference(case), fit_inference(changed(case, accelerator=bigger))
    assert rank(after.verdict) >= rank(before.verdict)
    held = before.capacity.sequences_at_context, after.capacity.sequences_at_context
    assert held[1].expected >= held[0].expected
    assert after.capacity.longest_context.expected >= before.capacity.longest_context.expected


@laws
@given(any_case, st.integers(1, 8 * GIB))
def test_more_memory_in_use_never_betters(case: InferenceCase, more: int) -> None:
    fuller = changed(case, in_use_bytes=case.in_use_bytes + more)
    before, after = fit_inference(case), fit_inference(fuller)
    _never_better(before, after)
    assert after.capacity.longest_context.low <= before.capacity.longest_context.low


@laws
@given(
    st.integers(1, 2**42),
    st.integers(1, 2**40),
    st.sampled_from([("cuda",), ("rocm",), ("metal",), ("vulkan",), ()]),
    st.booleans(),
)
def test_a_bigger_label_never_means_less_usable_memory(
    label: int, more: int, stacks: tuple[str, ...], unified: bool
) -> None:
    def usable(amount: int) -> UsableMemory:
        return usable_memory(
            Accelerator(
                name="device",
                marketed_memory_bytes=amount,
                stacks=stacks,  # type: ignore[arg-type]
                unified_memory=unified,
            )
        )

    small, large = usable(label), usable(label + more)
    assert 0 < small.low_bytes <= small.expected_bytes <= small.high_bytes <= label
    assert small.low_bytes <= large.low_bytes
    assert small.expected_bytes <= large.expected_bytes
    assert small.high_bytes <= large.high_bytes


# --- what the capacity promises, asked again


def _holds(case: InferenceCase, reading: str) -> bool:
    fit = fit_inference(case)
    refused = any(ledger.refusal for ledger in fit.ledgers)
    return not refused and bool(getattr(least_free(fit), reading) >= 0)


def _confirm(promised: Estimate, ceiling: int, case_of: Callable[[int], InferenceCase]) -> None:
    for reading in ("low", "expected", "high"):
        amount: int = getattr(promised, reading)
        if amount:
            assert _holds(case_of(amount), reading), f"{reading}: {amount} does not hold"
        if amount < ceiling:
            assert not _holds(case_of(amount + 1), reading), f"{reading}: {amount + 1} holds"


@laws
@given(any_case)
def test_the_longest_context_fits_and_one_more_token_does_not(case: InferenceCase) -> None:
    _confirm(
        fit_inference(case).capacity.longest_context,
        case.model.longest_context_tokens,
        lambda amount: asked(case, context=amount),
    )


@laws
@given(any_case)
def test_the_sequences_at_context_fit_and_one_more_does_not(case: InferenceCase) -> None:
    ceiling = 10**9 if case.runtime.accounting == "vllm" else 4096
    fit = fit_inference(case)
    assume(all(ledger.amount("kv_cache").expected for ledger in fit.ledgers))
    _confirm(
        fit.capacity.sequences_at_context,
        ceiling,
        lambda amount: asked(case, sequences=amount),
    )


@laws
@given(cases("llama.cpp"))
def test_the_layers_on_one_accelerator_fit_and_one_more_does_not(case: InferenceCase) -> None:
    _confirm_layers(changed(case, count=1))


@laws
@given(cases("llama.cpp"))
def test_the_layers_on_several_accelerators_fit_and_one_more_does_not(
    case: InferenceCase,
) -> None:
    _confirm_layers(changed(case, count=max(case.count, 2)))


def _confirm_layers(case: InferenceCase) -> None:
    most = fit_inference(case).capacity.layers_on_accelerator
    assert most is not None
    for layers in range(1, case.model.layer_count + 2):
        holds = inference_verdict(with_flags(case, n_gpu_layers=layers)) != "does_not_fit"
        if layers == most:
            assert holds, f"{layers} layers do not fit"
        elif layers > most:
            assert not holds, f"{layers} layers fit, more than {most}"


# --- corners that the generated questions leave out


def _model(
    *layers: Layer, order: tuple[str, ...] | None = None, repeat: int = 4
) -> ModelArchitecture:
    return ModelArchitecture(
        hidden_size=1024,
        vocabulary_size=32_000,
        longest_context_tokens=131_072,
        layers=layers,
        stack=(Segment(repeat=repeat, layers=order or tuple(layer.name for layer in layers)),),
    )


def _attention(name: str, **changes: int | bool) -> Layer:
    shape = {"query_heads": 16, "key_value_heads": 8, "head_dim": 64, **changes}
    return Layer(
        name=name,
        mixers=(msgspec.convert(shape, Attention),),
        feed_forward=(Dense(intermediate_size=4096),),
    )


def _case(
    accounting: Accounting,
    model: ModelArchitecture,
    *,
    gib: float = 24,
    version: str | None = None,
    flags: Flags | None = None,
    parallel: Parallelism | None = None,
    count: int = 1,
    context: int = 4096,
    in_use: int = 0,
) -> InferenceCase:
    found = runtime(accounting)
    version = version or found.default_version or ""
    era = found.era(version)
    assert era is not None
    plain: dict[Accounting, Flags] = {
        "sglang": SglangFlags(),
        "tensorrt-llm": TensorRtLlmFlags(),
        "tgi": TgiFlags(),
        "vllm": VllmFlags(),
        "llama.cpp": LlamaCppFlags(),
        "transformers": TransformersFlags(),
        "ollama": OllamaFlags(),
        "mlx-lm": MlxFlags(),
        "exllama": ExllamaFlags(),
    }
    usable = int(gib * GIB)
    sixteen = NamedCache("fp16", "float", CacheEncoding(bits_per_element=16))
    return InferenceCase(
        model=model,
        accelerator=Accelerator(
            name="device",
            marketed_memory_bytes=usable,
            usable_memory=UsableMemory(low_bytes=usable, expected_bytes=usable, high_bytes=usable),
            stacks=("cuda",),
        ),
        count=count,
        runtime=found,
        version=version,
        era=era,
        flags=flags or plain[accounting],
        weights=NamedWeights("fp16", "float", WeightEncoding(bits_per_weight=16)),
        key_cache=sixteen,
        value_cache=sixteen,
        parallel=parallel or Parallelism(),
        workload=InferenceWorkload(context_tokens=context),
        in_use_bytes=in_use,
    )


CACHELESS = Layer(name="cacheless", feed_forward=(Dense(intermediate_size=4096),))
LATENT = Layer(
    name="latent",
    mixers=(
        LatentAttention(
            query_heads=16,
            key_value_lora_rank=512,
            no_position_head_dim=128,
            position_head_dim=64,
            value_head_dim=128,
        ),
    ),
    feed_forward=(Dense(intermediate_size=4096),),
)
"""The attention of DeepSeek-V2-Lite."""


@pytest.mark.parametrize(
    "accounting",
    [
        "vllm",
        "sglang",
        "tensorrt-llm",
        "tgi",
        "llama.cpp",
        "transformers",
        "ollama",
        "mlx-lm",
        "exllama",
    ],
)
@pytest.mark.parametrize(
    "layer",
    [
        CACHELESS,
        _attention("encoder", shares_cache=True),
        Layer(name="narrow", mixers=(ShortConvolution(convolution_width=1),)),
    ],
    ids=lambda layer: layer.name,
)
def test_a_model_that_caches_nothing_is_priced(accounting: Accounting, layer: Layer) -> None:
    fit = fit_inference(_case(accounting, _model(layer)))
    assert fit.verdict == "fits"
    assert fit.capacity.kv_bytes_per_token == 0
    assert all(ledger.amount("kv_cache").high == 0 for ledger in fit.ledgers)


def test_a_pipeline_stage_that_caches_nothing_is_priced() -> None:
    model = _model(
        _attention("attention"), CACHELESS, order=("attention",) * 4 + ("cacheless",) * 4, repeat=1
    )
    case = _case("vllm", model, count=2, parallel=Parallelism(pipeline=2))
    first, second = fit_inference(case).ledgers
    assert first.amount("kv_cache").expected > 0
    assert second.amount("kv_cache").expected == 0


def test_the_longest_context_counts_the_batch_that_it_brings_with_it() -> None:
    """Before chunked prefill the profiled batch is as long as the context itself."""
    case = _case("vllm", _model(_attention("attention"), repeat=32), version="0.6.4", gib=8)
    _confirm(
        fit_inference(case).capacity.longest_context,
        case.model.longest_context_tokens,
        lambda amount: asked(case, context=amount),
    )


def test_the_longest_context_keeps_to_the_limit_that_was_set() -> None:
    case = _case("vllm", _model(_attention("attention")), flags=VllmFlags(max_model_len=8192))
    assert fit_inference(case).capacity.longest_context.high <= 8192


def test_a_server_that_does_not_start_holds_no_sequence() -> None:
    """vLLM refuses to start when its cache can not hold one sequence of max_model_len."""
    flags = VllmFlags(max_model_len=131_072)
    case = _case("vllm", _model(_attention("attention"), repeat=32), gib=8, flags=flags)
    fit = fit_inference(case)
    assert fit.verdict == "does_not_fit"
    assert fit.capacity.sequences_at_context.expected == 0


def test_layers_on_uneven_accelerators_are_the_most_that_fit() -> None:
    small, big = _attention("small"), _attention("big", key_value_heads=16, head_dim=256)
    model = _model(small, big, order=("small", "big", "big", "small"), repeat=1)
    model = msgspec.structs.replace(model, vocabulary_size=2_000_000)
    flags = LlamaCppFlags(flash_attn=True)
    case = _case(
        "llama.cpp", model, count=2, context=131_072, gib=100, version="b2000", flags=flags
    )
    needs = {
        layers: max(
            ledger.usable - ledger.free.expected
            for ledger in fit_inference(with_flags(case, n_gpu_layers=layers)).ledgers
        )
        for layers in range(1, 6)
    }
    between = (needs[4] + needs[3]) / 2
    assert needs[4] < between < min(needs[3], needs[5]), "three fill one device more than four"
    small_device = _case("llama.cpp", model, gib=between / GIB).accelerator
    _confirm_layers(changed(case, accelerator=small_device))


def test_a_cache_size_that_was_set_is_the_size_of_the_cache() -> None:
    model = _model(_attention("attention"))
    flags = VllmFlags(kv_cache_memory_bytes=GIB)
    case = _case("vllm", model, flags=flags)
    capacity = fit_inference(case).capacity
    assert capacity.kv_tokens == Estimate.exact(GIB // (16 * 8192) * 16)
    assert capacity.kv_bytes_per_token == 4 * 2 * 8 * 64 * 2


def test_more_than_the_cache_size_that_was_set_does_not_fit() -> None:
    model = _model(_attention("attention"), repeat=32)
    flags = VllmFlags(kv_cache_memory_bytes=GIB // 4)
    case = _case("vllm", model, flags=flags, context=131_072)
    assert fit_inference(case).verdict == "does_not_fit"


@pytest.mark.parametrize(("query", "held", "tensor"), [(40, 10, 4), (40, 10, 8), (28, 4, 7)])
def test_key_value_heads_that_can_neither_be_divided_nor_copied_are_refused(
    query: int, held: int, tensor: int
) -> None:
    """vLLM's QKVParallelLinear divides the heads by the ranks, or the ranks by the heads."""
    model = _model(_attention("attention", query_heads=query, key_value_heads=held))
    case = _case("vllm", model, count=tensor, parallel=Parallelism(tensor=tensor))
    with pytest.raises(Contradiction) as refused:
        fit_inference(case)
    assert refused.value.pointer == "/parallel/tensor"
    assert refused.value.remedy


def test_latent_attention_before_its_own_cache_is_cached_per_head() -> None:
    """DeepSeek-V2-Lite in vLLM 0.6: a block is 7,077,888 bytes, heads padded to 256.

    https://github.com/vllm-project/vllm/pull/4650
    """
    case = _case("vllm", _model(LATENT, repeat=27), version="0.6.3", gib=80)
    assert fit_inference(case).capacity.kv_bytes_per_token * 16 == 7_077_888


def test_latent_attention_in_older_llama_cpp_is_cached_per_head() -> None:
    """Keys of 192 and values of 128 per head, before builds that cache the latent."""
    case = _case("llama.cpp", _model(LATENT, repeat=27), version="b2000", gib=80)
    assert fit_inference(case).capacity.kv_bytes_per_token == 27 * 16 * (192 + 128) * 2


def test_a_server_is_refused_when_less_is_free_than_its_share() -> None:
    """vLLM 0.10 and later: "Free memory on device ... is less than desired GPU memory
    utilization". Of 24 GiB, 0.9 is 21.6 GiB; with 6 GiB taken, 18 GiB are free."""
    case = _case("vllm", _model(_attention("attention")), version="0.11.0", in_use=6 * GIB)
    assert fit_inference(case).verdict == "does_not_fit"


def test_a_server_that_is_refused_holds_nothing() -> None:
    case = _case("vllm", _model(_attention("attention")), version="0.11.0", in_use=6 * GIB)
    fit = fit_inference(case)
    assert fit.ledgers[0].refusal
    assert fit.capacity.sequences_at_context == Estimate.exact(0)
    assert fit.capacity.longest_context == Estimate.exact(0)
    assert fit.bound_by in ("in_use", "reserve")


def test_what_others_use_costs_no_cache_while_it_is_outside_the_share() -> None:
    """vLLM 0.10 and later no longer subtract other programs from the budget."""
    model = _model(_attention("attention"))
    alone, beside = (
        fit_inference(_case("vllm", model, version="0.11.0", in_use=taken)) for taken in (0, GIB)
    )
    assert beside.capacity.kv_tokens.expected == alone.capacity.kv_tokens.expected


def test_a_quantised_value_cache_without_flash_attention_is_refused() -> None:
    """llama.cpp: "V cache quantization requires flash_attn"."""
    case = _case("llama.cpp", _model(_attention("a")), flags=LlamaCppFlags(flash_attn=False))
    eight = NamedCache("q8_0", "gguf", CacheEncoding(bits_per_element=8.5))
    with pytest.raises(Contradiction):
        fit_inference(changed(case, key_cache=eight, value_cache=eight))


def test_sparse_latent_attention_in_fp8_keeps_a_row_of_656_bytes() -> None:
    """512 latent bytes, 4 scales, 64 positions in 16 bit; and 132 bytes of the index."""
    mixer = msgspec.structs.replace(
        LATENT.mixers[0], index=SparseIndex(heads=64, head_dim=128, selected_tokens=2048)
    )
    model = _model(msgspec.structs.replace(LATENT, mixers=(mixer,)), repeat=78)
    eight = NamedCache("fp8", "float", CacheEncoding(bits_per_element=8))
    case = changed(_case("vllm", model, gib=80), key_cache=eight, value_cache=eight)
    assert fit_inference(case).capacity.kv_bytes_per_token == 78 * (656 + 132)


def test_a_hybrid_of_two_head_sizes_prints_tokens_of_the_smaller_block() -> None:
    """vLLM up to 0.20 prints blocks // groups x block_size, not x the widest group's tokens.

    Gemma 4: full layers of half the bytes a token share pages of twice the tokens.
    https://github.com/vllm-project/vllm/issues/43308
    """
    full = _attention("full", key_value_heads=4)
    local = _attention("local", key_value_heads=8, window_tokens=1024)
    model = _model(full, local, order=("full", *("local",) * 5), repeat=5)
    case = _case("vllm", model, version="0.20.0", context=32_768)
    fit = fit_inference(case)
    pool = fit.ledgers[0].free.expected + fit.ledgers[0].amount("kv_cache").expected
    page = 16 * 2 * 8 * 64 * 2
    assert fit.capacity.kv_tokens.expected == pool // (5 * page) // 6 * 16


def test_a_stack_of_nothing_but_accelerators_is_listed_quickly() -> None:
    """A count that no machine has is refused, not walked through one by one."""
    started = process_time()
    with pytest.raises(Contradiction):
        fit_inference(_case("llama.cpp", _model(_attention("a")), count=3000))
    assert process_time() - started < 1
