"""Laws of the local runtimes, and the figures that their projects publish."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.engine.attention import Attention
from tonnage.engine.case import InferenceCase
from tonnage.engine.estimate import total
from tonnage.engine.feed_forward import Dense
from tonnage.engine.fit import fit_inference, inference_verdict
from tonnage.engine.flags import OllamaFlags
from tonnage.engine.memory.runtimes.ollama import default_context
from tonnage.engine.model import Layer, ModelArchitecture, Segment

from .strategies import cases

local_case: st.SearchStrategy[InferenceCase] = st.one_of(
    cases("ollama"), cases("mlx-lm"), cases("exllama")
)
laws = settings(max_examples=60, deadline=None)


def needed(case: InferenceCase) -> int:
    """Expected bytes on all devices and on the host."""
    fit = fit_inference(case)
    return fit.host_bytes + sum(ledger.usable - ledger.free.expected for ledger in fit.ledgers)


@laws
@given(local_case)
def test_a_ledger_adds_up_and_names_each_component_once(case: InferenceCase) -> None:
    fit = fit_inference(case)
    for ledger in fit.ledgers:
        held = total([entry.bytes for entry in ledger.components])
        assert ledger.usable == held.expected + ledger.free.expected
        assert ledger.usable == held.low + ledger.free.high
        assert ledger.usable == held.high + ledger.free.low
        names = [entry.name for entry in ledger.components]
        assert len(names) == len(set(names))
    assert fit.verdict == inference_verdict(case)


@laws
@given(local_case, st.integers(1, 131_072))
def test_more_context_never_needs_less(case: InferenceCase, more: int) -> None:
    longest = case.model.longest_context_tokens
    longer = msgspec.structs.replace(
        case.workload, context_tokens=min(case.workload.context_tokens + more, longest)
    )
    assert needed(case) <= needed(msgspec.structs.replace(case, workload=longer))


@laws
@given(local_case, st.integers(1, 300))
def test_more_sequences_never_need_less(case: InferenceCase, more: int) -> None:
    workload = msgspec.structs.replace(
        case.workload, concurrent_sequences=case.workload.concurrent_sequences + more
    )
    assert needed(case) <= needed(msgspec.structs.replace(case, workload=workload))


@laws
@given(cases("ollama"))
def test_ollama_left_to_itself_places_what_fits(case: InferenceCase) -> None:
    """With room for nothing, no layer is placed and it still runs."""
    flags = msgspec.structs.replace(case.flags, num_gpu=None)
    fit = fit_inference(msgspec.structs.replace(case, flags=flags))
    codes = {note.code for note in fit.warnings}
    placed_all = "layers_in_system_memory" not in codes
    every = fit_inference(
        msgspec.structs.replace(case, flags=msgspec.structs.replace(flags, num_gpu=10**4))
    )
    assert placed_all == (every.verdict != "does_not_fit")


def _llama_8b() -> ModelArchitecture:
    mixer = Attention(query_heads=32, key_value_heads=8, head_dim=128)
    layer = Layer(name="layer", mixers=(mixer,), feed_forward=(Dense(intermediate_size=14_336),))
    return ModelArchitecture(
        hidden_size=4096,
        vocabulary_size=128_256,
        longest_context_tokens=131_072,
        layers=(layer,),
        stack=(Segment(repeat=32, layers=("layer",)),),
    )


@pytest.mark.parametrize(("gib", "tokens"), [(8, 4096), (24, 32_768), (80, 262_144)])
@settings(max_examples=5, deadline=None)
@given(case=cases("ollama"))
def test_the_default_context_of_ollama_follows_from_memory(
    case: InferenceCase, gib: int, tokens: int
) -> None:
    """https://github.com/ollama/ollama/issues/14073: release 0.15.5."""
    accelerator = msgspec.structs.replace(
        case.accelerator, marketed_memory_bytes=gib * 2**30, usable_memory=None
    )
    newest = case.runtime.eras[-1]
    asked = msgspec.structs.replace(
        case, accelerator=accelerator, count=1, era=newest, flags=OllamaFlags(), model=_llama_8b()
    )
    assert default_context(asked) == tokens
