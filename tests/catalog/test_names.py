"""Names as people type them."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.catalog.names import did_you_mean, nearest, normal, words

laws = settings(max_examples=100, deadline=None, derandomize=True, database=None)

SEPARATORS = " -_,/:()@+\t"
names = st.text(alphabet="aBcX079.é" + SEPARATORS, max_size=30)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A100-80GB", "a100 80gb"),
        ("meta-llama/Llama-3.1-8B", "META_LLAMA llama 3.1 8b"),
        ("NVIDIA H100 (SXM)", "nvidia-h100-sxm"),
        ("ml.p5.48xlarge", "ML p5.48xlarge"),
        ("g5.xlarge", "G5 XLARGE"),
        ("Straße", "STRASSE"),
    ],
)
def test_case_and_punctuation_do_not_matter(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("opt-1.3b", "opt-13b"),
        ("Qwen2.5-7B", "Qwen25-7B"),
        ("H100", "H200"),
        ("llama-3.1", "llama-3.2"),
    ],
)
def test_a_decimal_point_does(one: str, other: str) -> None:
    assert normal(one) != normal(other)


@laws
@given(names)
def test_a_normal_name_is_its_own(name: str) -> None:
    assert normal(normal(name)) == normal(name)


@laws
@given(names, st.sampled_from(SEPARATORS), st.integers(1, 3))
def test_one_separator_is_as_good_as_another(name: str, separator: str, times: int) -> None:
    swapped = "".join(separator * times if c in SEPARATORS else c for c in name)
    assert normal(swapped) == normal(name)
    assert normal(separator + name + separator) == normal(name)
    assert normal(name.upper().lower()) == normal(name.lower())


@laws
@given(names)
def test_words_are_the_parts_of_a_normal_name(name: str) -> None:
    assert all(words(name))
    assert "".join(words(name)) == normal(name)


KNOWN = (
    "nvidia-h100-80gb-sxm",
    "nvidia-a100-80gb-sxm",
    "nvidia-l4",
    "amd-mi300x",
    "meta-llama/Llama-3.1-8B-Instruct",
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("nvidia-h100-80g-sxm", "nvidia-h100-80gb-sxm"),
        ("MI-300", "amd-mi300x"),
        ("lama 3.1 8b instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("NVIDIA L4", "nvidia-l4"),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(typed: str, meant: str) -> None:
    assert nearest(typed, KNOWN)[0] == meant


@pytest.mark.parametrize("typed", ["zzzzqqqq", "", "---", "\u0000", "☃"])
def test_nothing_is_near_to_nonsense(typed: str) -> None:
    assert nearest(typed, KNOWN) == ()


def test_no_more_are_near_than_asked_for() -> None:
    many = [f"nvidia-rtx-{number}" for number in range(3000, 3100)]
    assert len(nearest("nvidia-rtx-3050", many)) == 3
    assert len(nearest("nvidia-rtx-3050", many, most=7)) == 7
    assert nearest("nvidia-rtx-3050", many, most=1) == ("nvidia-rtx-3050",)
    assert nearest("nvidia-rtx-3050", []) == ()


def test_a_very_long_name_is_compared_by_its_beginning() -> None:
    assert nearest("nvidia-l4" + "-" * 10_000, KNOWN)[0] == "nvidia-l4"
    assert nearest("x" * 100_000, KNOWN) == ()


@laws
@given(st.text(max_size=300))
def test_any_text_at_all_can_be_looked_up(name: str) -> None:
    assert set(nearest(name, KNOWN)) <= set(KNOWN)


def test_the_question_is_only_asked_with_an_answer() -> None:
    assert did_you_mean(()) == ""
    assert did_you_mean(("a",)) == " Did you mean a?"
    assert did_you_mean(("a", "b")) == " Did you mean a or b?"
