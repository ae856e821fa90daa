"""Common sizing questions, each beside its right answer.

Right is what follows from the published ``config.json``, the size of a published checkpoint, or a
published measurement; each test says which, and how close the answer must come. GB is 10**9 bytes,
GiB 2**30.
"""

import pytest

from tests.plans.conftest import Ask
from tests.plans.test_worked_examples import amount, pool, question
from tonnage.engine.answer import Capacity
from tonnage.engine.values import GB, GIB

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B = "meta-llama/Llama-3.1-70B-Instruct"
LLAMA_70B_FP8 = "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic"

# --- how large are the weights?


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [
        pytest.param(LLAMA_8B, 16.06, id="llama-8b-bf16"),
        pytest.param(LLAMA_70B_FP8, 72.67, id="llama-70b-fp8"),
        pytest.param("openai/gpt-oss-120b", 65.25, id="gpt-oss-120b-mxfp4"),
        pytest.param("google/gemma-3-27b-it", 54.86, id="gemma-3-27b-bf16"),
    ],
)
def test_weights_are_as_large_as_the_checkpoint(ask: Ask, model: str, gigabytes: float) -> None:
    """``total_size`` of https://huggingface.co/<model>/blob/main/model.safetensors.index.json.

    Within 0.1 %, of a runtime that repacks nothing.
    """
    answer = ask(question(model, "H200", 4096, runtime="transformers", version=None))
    assert amount(answer, "weights") / GB == pytest.approx(gigabytes, rel=0.001)


@pytest.mark.parametrize(
    ("model", "checkpoint_gigabytes", "parameters"),
    [
        pytest.param("deepseek-ai/DeepSeek-V3", 688.57, 671e9, id="deepseek-v3"),
        pytest.param("Qwen/Qwen3-Next-80B-A3B-Instruct", 162.65, 80e9, id="qwen3-next"),
    ],
)
def test_layers_that_only_draft_are_not_loaded(
    ask: Ask, model: str, checkpoint_gigabytes: float, parameters: float
) -> None:
    """https://huggingface.co/<model>: parameters within 0.5 % of the model card's.

    The checkpoint holds one layer more, for multi-token prediction, 2 to 3 % of it.
    """
    answer = ask(question(model, "H200", 4096, runtime="transformers", version=None))
    assert answer.subject.parameters == pytest.approx(parameters, rel=0.005)
    loaded = amount(answer, "weights") / GB
    assert 0.97 * checkpoint_gigabytes <= loaded <= 0.98 * checkpoint_gigabytes


@pytest.mark.parametrize(
    ("model", "gigabytes"),
    [
        pytest.param("meta-llama/Llama-2-7b-hf", 3.89, id="7b"),
        pytest.param("meta-llama/Llama-2-13b-hf", 7.25, id="13b"),
        pytest.param("meta-llama/Llama-2-70b-hf", 36.61, id="70b"),
    ],
)
def test_four_bit_weights_have_scales_and_16_bit_tables(
    ask: Ask, model: str, gigabytes: float
) -> None:
    """https://huggingface.co/TheBloke/Llama-2-7B-AWQ, -13B-AWQ and -70B-AWQ: the files' sizes.

    Within 0.2 %; that is 15, 11 and 6 % above half a byte a parameter.
    """
    answer = ask(question(model, "H100", 4096, runtime="transformers", version=None, weights="awq"))
    assert amount(answer, "weights") / GB == pytest.approx(gigabytes, rel=0.002)


# --- Llama-3.1-8B in bf16 on an L4


@pytest.mark.parametrize(("context", "gigabytes"), [(131_072, 33.24), (8192, 17.13)])
def test_llama_8b_and_the_cache_of_one_sequence(ask: Ask, context: int, gigabytes: float) -> None:
    """8,030,261,248 parameters of 2 bytes and 128 KiB a token: within 0.1 %.

    https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct/blob/main/config.json
    """
    answer = ask(question(LLAMA_8B, "L4", context, runtime="transformers", version=None))
    held = amount(answer, "weights") + amount(answer, "kv_cache")
    assert held / GB == pytest.approx(gigabytes, rel=0.001)


@pytest.mark.parametrize("version", ["0.6.4", "0.11.0"])
def test_an_l4_leaves_llama_8b_2_6_to_4_gib_of_cache(ask: Ask, version: str) -> None:
    """21,000 to 32,000 tokens, which are also the longest context.

    Scaled to an L4's 22 GiB at 0.9 from the log of a card with 23.58 GiB, which left 3.81 GiB:
    https://github.com/vllm-project/vllm/issues/10517
    """
    answer = ask(question(LLAMA_8B, "L4", 8192, version=version, gpu_memory_utilization=0.9))
    assert answer.verdict == "fits"
    assert 2.6 <= pool(answer) / GIB <= 4.0
    assert 21_000 <= answer.capacity.longest_context.expected <= 32_000


def test_an_fp8_cache_halves_what_131072_tokens_need_and_still_exceeds_an_l4(ask: Ask) -> None:
    """64 KiB a token: exactly 8 GiB, beside 15 GiB of weights on 22 GiB."""
    answer = ask(question(LLAMA_8B, "L4", 131_072, kv_cache="fp8"))
    assert amount(answer, "kv_cache") == 8 * GIB
    assert answer.verdict == "does_not_fit"


# --- 13 B on a laptop with 8 GB, under vLLM


@pytest.mark.parametrize(
    ("weights", "low", "high"),
    [("fp16", 24.2, 24.4), ("int8-w8a8", 12.1, 12.6), ("awq", 6.7, 7.3)],
)
def test_13b_fits_8_gb_in_no_format_of_vllm(
    ask: Ask, weights: str, low: float, high: float
) -> None:
    """13,015,864,320 parameters; 800 KiB a token are exactly 3.125 GiB for 4,096 tokens.

    https://huggingface.co/meta-llama/Llama-2-13b-hf/blob/main/config.json
    """
    answer = ask(
        question("meta-llama/Llama-2-13b-hf", "nvidia-rtx-4060-laptop", 4096, weights=weights)
    )
    assert answer.verdict == "does_not_fit"
    assert low <= amount(answer, "weights") / GIB <= high
    assert amount(answer, "kv_cache") == 3.125 * GIB


# --- Llama-70B in FP8 on H100s


@pytest.mark.parametrize(
    ("tensor", "gib", "tolerance"),
    [
        pytest.param(1, 1.4, 0.5, id="tp1"),
        pytest.param(2, 66.9, 66.9 * 0.03, id="tp2"),
        pytest.param(4, 201, 201 * 0.03, id="tp4"),
        pytest.param(8, 471, 471 * 0.03, id="tp8"),
    ],
)
def test_what_llama_70b_fp8_leaves_for_its_cache(
    ask: Ask, tensor: int, gib: float, tolerance: float
) -> None:
    """All ranks together, within 3 %; where one rank is left with next to nothing, 0.5 GiB.

    0.9 x 79.19 GiB less 67.72 GiB / ranks of weights, 1.9 GiB of activations, and 0.25 (one
    rank) to 2.1 GiB (several) outside PyTorch, as measured with vLLM 0.19:
    https://github.com/llm-d-incubation/llm-d-planner/blob/2d557dcaab965f16c7f9081b1e90db2b80532e7d/docs/accuracy/vllm-v0.19.0-accuracy-report.md
    """
    answer = ask(
        question(
            LLAMA_70B_FP8,
            "H100",
            32_768,
            count=tensor,
            version="0.19.0",
            gpu_memory_utilization=0.9,
        )
    )
    assert pool(answer) * tensor / GIB == pytest.approx(gib, abs=tolerance)


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_tokens_are_counted_once_over_tensor_ranks(ask: Ask, tensor: int) -> None:
    """Each rank holds its share of every token's 320 KiB: tokens x share = a rank's cache memory.

    To within the one block of 16 tokens that does not fill up.
    """
    answer = ask(question(LLAMA_70B_FP8, "H100", 32_768, count=tensor, version="0.19.0"))
    share = answer.capacity.kv_bytes_per_token
    assert share == 320 * 1024 // tensor
    unused = pool(answer) - answer.capacity.kv_tokens.expected * share
    assert 0 <= unused < 16 * share


def test_the_longest_context_of_llama_70b_bf16_holds_one_sequence(ask: Ask) -> None:
    """Exactly: one sequence of that length starts, one block of 16 tokens more does not."""

    def capacity(context: int) -> Capacity:
        return ask(question(LLAMA_70B, "H100", context, count=2, version="0.19.0")).capacity

    longest = capacity(8192).longest_context.expected
    assert 8192 < longest < 131_072
    assert capacity(longest).sequences_at_context.expected == 1
    assert capacity(longest + 16).sequences_at_context.expected == 0


# --- latent, windowed and linear attention


def test_deepseek_v3_keeps_2_14_gib_a_sequence_of_32k_on_every_rank(ask: Ask) -> None:
    """61 layers x 576 elements x 2 bytes, copied to all ranks, exactly; 40 GiB for it within 5 %.

    https://huggingface.co/deepseek-ai/DeepSeek-V3/blob/main/config.json
    """
    answer = ask(question("deepseek-ai/DeepSeek-V3", "H200", 32_768, count=8))
    assert amount(answer, "kv_cache") == 61 * 576 * 2 * 32_768
    assert amount(answer, "kv_cache") / GIB == pytest.approx(2.14, abs=0.005)
    assert pool(answer) / GIB == pytest.approx(40, rel=0.05)


def test_gemma_3_27b_keeps_a_prefill_chunk_beside_its_windows(ask: Ask) -> None:
    """13.7 GiB with the chunk of 8,192 that vLLM takes by default.

    10 global layers of 131,072 tokens and 52 local ones of 1,024 + 8,192, 8 KiB each; vLLM fills
    the 52 up to six groups of ten, so up to 60 local layers and two blocks of each.
    https://huggingface.co/google/gemma-3-27b-it/blob/main/config.json
    """
    answer = ask(question("google/gemma-3-27b-it", "H100", 131_072))
    whole, window = 10 * 131_072 * 8192, (1024 + 8192) * 8192
    assert whole + 52 * window == pytest.approx(13.66 * GIB, rel=0.001)
    assert whole + 52 * window <= amount(answer, "kv_cache") <= whole + 60 * (window + 32 * 8192)


def test_qwen3_next_keeps_6_gib_and_72_to_74_mib_of_state(ask: Ask) -> None:
    """12 of 48 layers x 2 key/value heads x 256 x 2 x 2 bytes; the other 36 keep a state.

    https://huggingface.co/Qwen/Qwen3-Next-80B-A3B-Instruct/blob/main/config.json
    """
    answer = ask(
        question(
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "H200",
            262_144,
            runtime="transformers",
            version=None,
        )
    )
    assert answer.capacity.kv_bytes_per_token == 12 * 2 * 256 * 2 * 2
    state = amount(answer, "kv_cache") - 6 * GIB
    assert 72 <= state / 2**20 <= 74
