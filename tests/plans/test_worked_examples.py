"""What the field teaches and what engines have logged, asked of the planner.

Each test states its source and how close the answer must come. GB is 10**9 bytes, GiB 2**30.
"""

from typing import Any

import pytest

from tests.plans.conftest import Ask
from tonnage.catalog.kinds import AcceleratorRecord, ModelRecord
from tonnage.catalog.release import Release
from tonnage.engine.answer import Component
from tonnage.engine.memory.weights import bytes_of, stage_weights
from tonnage.engine.precision import WeightEncoding
from tonnage.engine.values import GB, GIB, round_up
from tonnage.plans.answers import FitInferenceAnswer

Json = dict[str, Any]


def question(
    model: str,
    accelerator: str,
    context: int,
    *,
    count: int = 1,
    sequences: int = 1,
    weights: str = "auto",
    kv_cache: str = "auto",
    runtime: str = "vllm",
    version: str | None = "0.11.0",
    **flags: Any,
) -> Json:
    chosen: Json = {"name": runtime, "flags": flags}
    if version is not None:
        chosen["version"] = version
    return {
        "model": model,
        "hardware": {"accelerator": accelerator, "count": count},
        "runtime": chosen,
        "formats": {"weights": weights, "kv_cache": kv_cache},
        "workload": {"context_tokens": context, "concurrent_sequences": sequences},
    }


def amount(answer: FitInferenceAnswer, name: Component) -> int:
    """Expected bytes on the first accelerator."""
    return answer.ledger[0].amount(name).expected


def pool(answer: FitInferenceAnswer) -> int:
    """What vLLM would print as available for its KV cache."""
    return answer.ledger[0].free.expected + amount(answer, "kv_cache")


# --- weights alone, before overhead

FP32, FP16, INT8, INT4 = 32, 16, 8, 4
TAUGHT = [
    (3, FP32, 12.0),
    (3, FP16, 6.0),
    (3, INT8, 3.0),
    (3, INT4, 1.5),
    (7, FP32, 28.0),
    (7, FP16, 14.0),
    (7, INT8, 7.0),
    (7, INT4, 3.5),
    (13, FP32, 52.0),
    (13, FP16, 26.0),
    (13, INT8, 13.0),
    (13, INT4, 6.5),
    (70, FP32, 280.0),
    (70, FP16, 140.0),
    (70, INT8, 70.0),
    (70, INT4, 35.0),
]
MODELS = {
    3: "meta-llama/Llama-3.2-3B-Instruct",
    7: "meta-llama/Llama-2-7b-hf",
    13: "meta-llama/Llama-2-13b-hf",
    70: "meta-llama/Llama-2-70b-hf",
}


@pytest.mark.parametrize(("billions", "bits", "gigabytes"), TAUGHT)
def test_the_rule_of_thumb_for_weights(billions: int, bits: int, gigabytes: float) -> None:
    assert bytes_of(billions * 10**9, bits) == gigabytes * GB


@pytest.mark.parametrize(("billions", "bits", "gigabytes"), TAUGHT)
def test_a_real_model_of_that_size_follows_the_rule(
    seed: Release, billions: int, bits: int, gigabytes: float
) -> None:
    """Exactly its own parameters; within 8 % of the rule, whose sizes are rounded names."""
    record = seed.records["models"][MODELS[billions]]
    assert isinstance(record, ModelRecord)
    model = record.architecture
    assert model is not None
    (whole,) = stage_weights(model, WeightEncoding(bits_per_weight=bits), 1, 1, 1)
    tables = 1 if model.tied_embeddings else 2
    rows = round_up(model.vocabulary_size, 64) - model.vocabulary_size
    assert whole == (model.parameters + rows * model.hidden_size * tables) * bits // 8
    assert whole == pytest.approx(gigabytes * GB, rel=0.08)


@pytest.mark.parametrize(
    ("billions", "gib"),
    [(7, (25.1, 12.55, 6.28, 3.14)), (70, (257.0, 128.5, 64.2, 32.1))],
)
def test_the_weights_of_llama_2_in_gib(
    seed: Release, billions: int, gib: tuple[float, ...]
) -> None:
    """Within 0.2 %: 6,738,415,616 and 68,976,648,192 parameters."""
    record = seed.records["models"][MODELS[billions]]
    assert isinstance(record, ModelRecord)
    assert record.architecture is not None
    for bits, expected in zip((FP32, FP16, INT8, INT4), gib, strict=True):
        (whole,) = stage_weights(record.architecture, WeightEncoding(bits_per_weight=bits), 1, 1, 1)
        assert whole / GIB == pytest.approx(expected, rel=0.002)


# --- 13 B and 7 B on a laptop with 8 GB

LAPTOP = "nvidia-rtx-4060-laptop"


def on_the_laptop(model: int, weights: str, context: int, **flags: Any) -> Json:
    return question(
        MODELS[model], LAPTOP, context, weights=weights, runtime="llama.cpp", version=None, **flags
    )


@pytest.mark.parametrize("weights", ["fp16", "q8_0"])
def test_13b_in_16_or_8_bit_does_not_fit_8_gb(ask: Ask, weights: str) -> None:
    answer = ask(on_the_laptop(13, weights, 256))
    assert answer.verdict == "does_not_fit"
    assert answer.bound_by == "weights"
    assert answer.capacity.longest_context.high == 0


@pytest.mark.parametrize("weights", ["iq4_xs", "q4_0", "q4_k_s"])
def test_13b_in_4_bit_is_at_the_edge_of_8_gb(ask: Ask, weights: str) -> None:
    """The weights alone leave less than 1.5 GiB; with runtime and cache only short contexts."""
    answer = ask(on_the_laptop(13, weights, 4096))
    assert 0 < answer.ledger[0].usable - amount(answer, "weights") < 1.5 * GIB
    assert answer.verdict == "does_not_fit"
    assert answer.capacity.longest_context.expected < 2048
    assert 0 < answer.capacity.longest_context.high < 4096


def test_13b_on_8_gb_says_how_many_layers_to_offload(ask: Ask) -> None:
    request = on_the_laptop(13, "q4_k_m", 4096)
    answer = ask(request)
    assert answer.verdict == "does_not_fit"
    layers = answer.capacity.layers_on_accelerator
    assert layers is not None
    assert 20 <= layers <= 32, "of 41, output layer included"
    patches = [remedy.patch for remedy in answer.remedies if remedy.verdict == "fits"]
    kept = [p["runtime"]["flags"]["n_gpu_layers"] for p in patches if "runtime" in p]
    assert kept
    assert max(kept) <= layers
    partly = ask(on_the_laptop(13, "q4_k_m", 4096, n_gpu_layers=max(kept)))
    assert partly.verdict == "fits"
    assert partly.host_memory_bytes > 2 * GIB


def test_13b_on_8_gb_says_how_long_a_context_its_layers_leave(ask: Ask) -> None:
    """With 30 of 41 layers on the card, a context between none and the whole one."""
    answer = ask(on_the_laptop(13, "q4_k_m", 4096, n_gpu_layers=30))
    assert 0 < answer.capacity.longest_context.expected < 4096
    shorter = answer.capacity.longest_context.expected
    assert ask(on_the_laptop(13, "q4_k_m", shorter, n_gpu_layers=30)).verdict != "does_not_fit"


def test_7b_in_4_bit_fits_8_gb_comfortably(ask: Ask) -> None:
    answer = ask(on_the_laptop(7, "q4_k_m", 4096))
    assert answer.verdict == "fits"
    assert answer.ledger[0].free.expected > 0.5 * GIB
    assert answer.capacity.longest_context.low == 4096
    assert answer.capacity.layers_on_accelerator == 33


# --- the cache overtakes the weights


def test_the_cache_grows_with_context_and_overtakes_the_weights(ask: Ask) -> None:
    """Llama-3.1-8B: 14.99 GiB of weights, 128 KiB a token; 16 sequences cross at 7,67x tokens."""
    llama = "meta-llama/Llama-3.1-8B-Instruct"
    found = []
    for context in (512, 1024, 2048, 4096, 8192, 16_384):
        answer = ask(question(llama, "H100", context, sequences=16))
        assert amount(answer, "kv_cache") == 16 * context * 128 * 1024
        found.append(amount(answer, "kv_cache") > amount(answer, "weights"))
    assert found == [False, False, False, False, True, True]
    weights = amount(ask(question(llama, "H100", 512)), "weights")
    crossing = weights // (16 * 128 * 1024) // 16 * 16
    below, above = (
        ask(question(llama, "H100", context, sequences=16)) for context in (crossing, crossing + 16)
    )
    assert amount(below, "kv_cache") <= weights < amount(above, "kv_cache")


def test_the_cache_grows_with_concurrency_and_overtakes_the_weights(ask: Ask) -> None:
    sizes = [
        amount(ask(question(MODELS[7], "A100-80GB", 4096, sequences=n)), "kv_cache")
        for n in (1, 2, 4, 8, 16)
    ]
    assert sizes == [n * 2 * GIB for n in (1, 2, 4, 8, 16)]
    weights = amount(ask(question(MODELS[7], "A100-80GB", 4096)), "weights")
    assert sizes[2] < weights < sizes[3]


# --- how much memory a device really has


@pytest.mark.parametrize(
    "device", ["apple-m4-pro-48gb", "apple-m1-16gb", "amd-strix-halo-128gb", "apple-m2-ultra-192gb"]
)
def test_unified_memory_leaves_room_for_the_operating_system(
    ask: Ask, seed: Release, device: str
) -> None:
    record = seed.records["accelerators"][device]
    assert isinstance(record, AcceleratorRecord)
    assert record.unified_memory
    answer = ask(
        question(MODELS[3], device, 1024, runtime="llama.cpp", version=None, weights="q4_k_m")
    )
    assert answer.ledger[0].usable <= 0.85 * record.marketed_memory_bytes


@pytest.mark.parametrize(
    ("device", "usable", "driver"),
    [
        ("nvidia-h100-80gb-sxm", (79.1, 79.25), 79.65),
        ("nvidia-a100-80gb-sxm", (79.1, 79.4), 80.0),
        ("nvidia-l4", (21.9, 22.1), 22.49),
        ("nvidia-t4", (14.5, 14.6), 15.0),
        ("nvidia-rtx-4090", (23.4, 23.7), 23.99),
        ("nvidia-h200-141gb-sxm", (139.6, 139.9), 140.4),
        ("amd-mi300x", (191.9, 192.0), 191.98),
    ],
)
def test_what_runtimes_see_counts_and_not_the_label(
    ask: Ask, seed: Release, device: str, usable: tuple[float, float], driver: float
) -> None:
    """Totals that vLLM logs print, below what nvidia-smi prints, below the label."""
    record = seed.records["accelerators"][device]
    assert isinstance(record, AcceleratorRecord)
    seen = ask(question(MODELS[3], device, 1024)).ledger[0].usable
    assert usable[0] <= seen / GIB <= usable[1]
    assert record.driver_total_bytes is not None
    assert record.driver_total_bytes / GIB == pytest.approx(driver, rel=0.002)
    assert seen <= record.driver_total_bytes <= record.marketed_memory_bytes


@pytest.mark.parametrize(
    ("device", "teraflops"), [("nvidia-h100-80gb-sxm", 989.5), ("nvidia-a100-80gb-sxm", 312)]
)
def test_headlines_with_sparsity_are_halved(seed: Release, device: str, teraflops: float) -> None:
    record = seed.records["accelerators"][device]
    assert isinstance(record, AcceleratorRecord)
    assert record.dense_operations_per_second.bf16 == pytest.approx(teraflops * 10**12, rel=0.001)


def test_integrated_and_discrete_graphics_of_one_laptop_are_answered_each(ask: Ask) -> None:
    answers = [
        ask(question(MODELS[3], device, 1024, runtime="llama.cpp", version=None, weights="q4_k_m"))
        for device in ("amd-radeon-890m-96gb", LAPTOP)
    ]
    assert answers[0].ledger[0].usable != answers[1].ledger[0].usable
    for answer in answers:
        assert answer.support.runtime_on_device == "yes"
        assert answer.verdict in ("fits", "tight")


@pytest.mark.parametrize(
    ("runtime", "leaves"),
    [("vllm", "usage"), ("transformers", "Hub"), ("llama.cpp", "model files")],
)
def test_an_answer_names_what_leaves_the_machine(ask: Ask, runtime: str, leaves: str) -> None:
    answer = ask(question(MODELS[3], "H100", 1024, runtime=runtime, version=None))
    (flow, *_) = [flow for flow in answer.data_flows if leaves in flow.what + flow.destination]
    assert flow.switch_off


# --- questions that other planners were asked


def test_llama_8b_on_an_l4_does_not_start_with_its_whole_context(ask: Ask) -> None:
    """131,072 tokens need 16.0 GiB of cache."""
    answer = ask(question("meta-llama/Llama-3.1-8B-Instruct", "L4", 131_072))
    assert answer.verdict == "does_not_fit"
    assert answer.bound_by == "kv_cache"
    assert amount(answer, "kv_cache") == 16 * GIB


def test_llama_8b_on_an_l4_starts_with_8k(ask: Ask) -> None:
    """2.6 to 4 GiB of cache are 21,000 to 32,000 tokens, 2.6 to 4 sequences of 8,192."""
    answer = ask(
        question("meta-llama/Llama-3.1-8B-Instruct", "L4", 8192, gpu_memory_utilization=0.9)
    )
    assert answer.verdict == "fits"
    assert amount(answer, "weights") / GIB == pytest.approx(14.99, rel=0.002)
    assert 21_000 <= answer.capacity.kv_tokens.expected <= 32_800
    assert 2 <= answer.capacity.sequences_at_context.expected <= 4


def test_13b_fits_an_8_gb_laptop_in_no_format_whole(ask: Ask) -> None:
    for weights in ("fp16", "q8_0", "q4_k_m"):
        answer = ask(on_the_laptop(13, weights, 4096))
        assert answer.verdict == "does_not_fit"
        assert answer.capacity.kv_bytes_per_token == 800 * 1024


HUNDREDS = "meta-llama/Llama-3.1-70B-Instruct"


@pytest.mark.parametrize(
    ("tensor", "low", "high"), [(1, 0, 0), (2, 6, 7), (4, 19, 21), (8, 45, 48)]
)
def test_llama_70b_fp8_holds_so_many_sequences_of_32k(
    ask: Ask, tensor: int, low: int, high: int
) -> None:
    answer = ask(question(HUNDREDS, "H100", 32_768, count=tensor, sequences=64, weights="fp8"))
    assert answer.verdict == "does_not_fit"
    assert amount(answer, "kv_cache") == 640 * GIB // tensor
    assert low <= answer.capacity.sequences_at_context.expected <= high


def test_llama_70b_fp8_with_64_sequences_is_told_tp8_and_an_fp8_cache(ask: Ask) -> None:
    answer = ask(question(HUNDREDS, "H100", 32_768, sequences=64, weights="fp8"))
    wanted = {
        "hardware": {"count": 8},
        "parallel": {"tensor": 8},
        "formats": {"kv_cache": "fp8"},
    }
    assert wanted in [remedy.patch for remedy in answer.remedies if remedy.verdict == "fits"]
    after = ask(
        question(HUNDREDS, "H100", 32_768, count=8, sequences=64, weights="fp8", kv_cache="fp8")
    )
    assert after.verdict == "fits"
    assert after.capacity.sequences_at_context.expected == pytest.approx(93, rel=0.03)


def test_deepseek_v3_holds_about_19_sequences_and_not_eight_times_that(ask: Ask) -> None:
    """70,272 bytes a token on every rank; 78 to 80 GiB of weights; about 600,000 tokens."""
    answer = ask(question("deepseek-ai/DeepSeek-V3", "H200", 32_768, count=8, sequences=16))
    assert answer.verdict != "does_not_fit"
    assert answer.capacity.kv_bytes_per_token == 70_272
    assert 77.5 <= amount(answer, "weights") / GIB <= 80
    assert answer.capacity.kv_tokens.expected == pytest.approx(600_000, rel=0.1)
    assert 17 <= answer.capacity.sequences_at_context.expected <= 21


def test_gpt_oss_120b_is_tight_on_one_h100(ask: Ask) -> None:
    """4.5 GiB of cache for 131,072 tokens, which the defaults do not hold.

    https://github.com/vllm-project/vllm/issues/27508
    """
    answer = ask(question("openai/gpt-oss-120b", "H100", 131_072))
    assert answer.verdict != "fits"
    assert answer.capacity.kv_bytes_per_token == 18 * 2 * 8 * 64 * 2
    assert 4.5 <= amount(answer, "kv_cache") / GIB <= 5.0
    assert any(remedy.verdict == "fits" for remedy in answer.remedies)


def test_the_weights_of_gpt_oss_120b_are_those_that_are_loaded(ask: Ask) -> None:
    """64.38 GiB with Triton kernels, 65.97 GiB with Marlin: within 2 % of either.

    https://github.com/vllm-project/vllm/issues/23278
    https://github.com/vllm-project/vllm/issues/33155
    """
    loaded = amount(ask(question("openai/gpt-oss-120b", "H100", 8192)), "weights") / GIB
    assert 64.38 * 0.98 <= loaded <= 65.97 * 1.02


def test_the_cache_of_gemma_3_27b_at_128k_is_10_4_gib(ask: Ask) -> None:
    """10 global layers of all tokens, 52 local ones of 1,024: 10.406 GiB."""
    answer = ask(
        question("google/gemma-3-27b-it", "H100", 131_072, runtime="transformers", version=None)
    )
    assert amount(answer, "kv_cache") == (10 * 131_072 + 52 * 1024) * 8192
    assert amount(answer, "kv_cache") / GIB == pytest.approx(10.406, rel=0.0001)


def test_gemma_3_27b_at_128k_fits_one_h100_with_the_paging_of_vllm(ask: Ask) -> None:
    """10.4 GiB, and at most 15 % for blocks of 16 tokens and a batch of 2,048."""
    answer = ask(
        question(
            "google/gemma-3-27b-it",
            "H100",
            131_072,
            max_num_seqs=16,
            max_num_batched_tokens=2048,
        )
    )
    assert 10.406 <= amount(answer, "kv_cache") / GIB <= 10.406 * 1.15
    assert answer.verdict in ("fits", "tight")
    assert answer.capacity.sequences_at_context.expected == 1


def test_qwen3_next_at_262k_holds_about_10_sequences_on_four_h100(ask: Ask) -> None:
    """Two key/value heads on four ranks: each holds half of 6.0 GiB, and its state."""
    answer = ask(
        question(
            "Qwen/Qwen3-Next-80B-A3B-Instruct",
            "H100",
            262_144,
            count=4,
            sequences=10,
            max_num_seqs=16,
            max_num_batched_tokens=2048,
        )
    )
    assert answer.capacity.kv_bytes_per_token == 12 * 2 * 1 * 256 * 2
    assert 3.0 <= amount(answer, "kv_cache") / 10 / GIB <= 3.1
    assert 9 <= answer.capacity.sequences_at_context.expected <= 11
    assert answer.capacity.sequences_at_context.high >= 10


# --- public reports


@pytest.mark.parametrize(
    ("context", "gib", "blocks", "starts"),
    [(20_000, 3.81, 1952, True), (29_000, 2.89, 1478, False)],
)
def test_llama_8b_on_a_24_gb_card_under_engine_v0(
    ask: Ask, context: int, gib: float, blocks: int, starts: bool
) -> None:
    """https://github.com/vllm-project/vllm/issues/10517: pool and blocks within 12 %."""
    answer = ask(
        question(
            "meta-llama/Llama-3.1-8B-Instruct",
            "RTX 3090",
            context,
            version="0.6.4",
            gpu_memory_utilization=0.9,
        )
    )
    assert amount(answer, "weights") / GIB == pytest.approx(14.99, rel=0.002)
    assert pool(answer) / GIB == pytest.approx(gib, rel=0.12)
    assert answer.capacity.kv_tokens.expected / 16 == pytest.approx(blocks, rel=0.12)
    assert answer.capacity.kv_tokens.low <= blocks * 16 <= answer.capacity.kv_tokens.high
    assert (answer.verdict != "does_not_fit") == starts


def test_a_longer_context_may_start_where_a_shorter_one_does_not(ask: Ask) -> None:
    """The same report: 35,000 tokens start, since prefill is cut into chunks beyond 32,768."""
    answer = ask(
        question(
            "meta-llama/Llama-3.1-8B-Instruct",
            "RTX 3090",
            35_000,
            version="0.6.4",
            gpu_memory_utilization=0.9,
        )
    )
    assert answer.verdict != "does_not_fit"


@pytest.mark.parametrize(
    ("version", "tokens", "tolerance"), [("0.20.0", 55_000, 0.05), ("0.21.0", 525_000, 0.2)]
)
def test_gemma_4_31b_prints_tokens_by_the_release(
    ask: Ask, version: str, tokens: int, tolerance: float
) -> None:
    """https://github.com/vllm-project/vllm/issues/43308: one pool of about 50 GB (of 2**30
    bytes, as vLLM prints them), two figures. The length that the server was
    started with is not given, and decides the second: 10 %, 5 % and 20 %.
    """
    answer = ask(
        question(
            "google/gemma-4-31B-it",
            "A100-80GB",
            262_144,
            weights="awq",
            version=version,
            gpu_memory_utilization=0.9,
        )
    )
    assert pool(answer) / GIB == pytest.approx(50, rel=0.1)
    assert answer.capacity.kv_tokens.expected == pytest.approx(tokens, rel=tolerance)


def test_gpt_oss_120b_fits_one_node_of_two_a100(ask: Ask) -> None:
    """https://github.com/kaito-project/kaito/pull/2302: one node of 2 x A100-80GB is enough."""
    assert ask(question("openai/gpt-oss-120b", "A100-80GB", 131_072, count=2)).verdict == "fits"


def test_nemotron_nano_9b_needs_two_a10(ask: Ask) -> None:
    """The same report: its state space layers keep a state, so one A10 is not enough."""
    nano = "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
    one = ask(question(nano, "A10", 131_072))
    assert one.verdict == "does_not_fit"
    assert one.bound_by == "kv_cache"
    assert ask(question(nano, "A10", 131_072, count=2)).verdict == "fits"


@pytest.mark.parametrize(
    ("context", "gigabytes"), [(4096, 0.40), (8192, 0.48), (32_768, 0.99), (131_072, 3.00)]
)
def test_gemma_4_26b_keeps_windows_under_llama_cpp(
    ask: Ask, context: int, gigabytes: float
) -> None:
    """https://github.com/ollama/ollama/pull/16958: within the last digit that is printed."""
    answer = ask(
        question(
            "google/gemma-4-26B-A4B-it",
            "H100",
            context,
            weights="q4_k_m",
            runtime="llama.cpp",
            version=None,
        )
    )
    assert amount(answer, "kv_cache") / GB == pytest.approx(gigabytes, abs=0.005)


def test_qwen_3_6_27b_keeps_a_cache_in_a_quarter_of_its_layers(ask: Ask) -> None:
    """https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1862: 16,384 + 598.5 MiB.

    262,144 tokens in all and the states of four sequences; within 0.1 %.
    """
    answer = ask(
        question(
            "Qwen/Qwen3.6-27B",
            "H100",
            65_536,
            sequences=4,
            weights="q4_k_m",
            runtime="llama.cpp",
            version=None,
        )
    )
    assert amount(answer, "kv_cache") / 2**20 == pytest.approx(16_384 + 598.5, rel=0.001)


def test_latent_attention_is_copied_by_tensor_and_split_by_data_parallel_ranks(ask: Ask) -> None:
    """https://github.com/vllm-project/vllm/issues/51454: DP8 held 7.7 times the tokens of TP8.

    Asked of DeepSeek-V3, whose weights leave other rooms: between 4 and 8 times a rank's tokens.
    """
    by_tensor = ask(question("deepseek-ai/DeepSeek-V3", "B200", 8192, count=8))
    request = question("deepseek-ai/DeepSeek-V3", "B200", 8192, count=8)
    request["parallel"] = {"data": 8, "expert": 8}
    by_data = ask(request)
    assert by_data.capacity.kv_tokens.expected > 4 * by_tensor.capacity.kv_tokens.expected
    assert by_data.capacity.kv_tokens.expected < 8 * by_tensor.capacity.kv_tokens.expected
