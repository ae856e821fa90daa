"""The whole answer: the same bytes for the same question, remedies that hold, clear refusals."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.plans.conftest import Ask
from tonnage import ENGINE_VERSION
from tonnage.catalog.kinds import AcceleratorRecord, FormatRecord, ModelRecord
from tonnage.catalog.release import Release
from tonnage.engine.errors import Contradiction, EngineError, NotModelled
from tonnage.engine.precision import CacheEncoding
from tonnage.plans.answers import FitInferenceAnswer
from tonnage.plans.errors import UnknownName
from tonnage.plans.fit import answer_fit, request_digest
from tonnage.plans.requests import FitInferenceRequest
from tonnage.plans.resolve import resolve

Json = dict[str, Any]

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
PLAIN: Json = {
    "model": LLAMA,
    "hardware": {"accelerator": "nvidia-l4"},
    "runtime": {"name": "vllm", "version": "0.11.0"},
    "workload": {"context_tokens": 8192},
}


def patched(target: Any, patch: Any) -> Any:
    """MergePatch as RFC 7396, section 2, writes it."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value)
    return result


def asked(**patch: Any) -> Json:
    found: Json = patched(PLAIN, patch)
    return found


def digest(request: Json) -> str:
    return request_digest(
        msgspec.json.decode(msgspec.json.encode(request), type=FitInferenceRequest)
    )


def backwards(value: Any) -> Any:
    """The same JSON with every object's keys in the opposite order."""
    if isinstance(value, dict):
        return {key: backwards(value[key]) for key in reversed(value)}
    return value


# --- the same question, the same answer


def test_the_same_question_is_answered_with_the_same_bytes(ask: Ask) -> None:
    first, again = (msgspec.json.encode(ask(PLAIN)) for _ in range(2))
    assert first == again
    assert msgspec.json.encode(ask(backwards(PLAIN))) == first


OTHER_PROCESS = """
import sys, msgspec
from tonnage.catalog.seed import seed_release
from tonnage.plans.fit import answer_fit
from tonnage.plans.requests import FitInferenceRequest
request = msgspec.json.decode(sys.stdin.buffer.read(), type=FitInferenceRequest)
sys.stdout.buffer.write(msgspec.json.encode(answer_fit(request, seed_release())))
"""


@pytest.mark.parametrize("hash_seed", ["1", "4321"])
def test_another_process_answers_alike(ask: Ask, hash_seed: str) -> None:
    request = asked(workload={"context_tokens": 131_072})
    other = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS],
        input=msgspec.json.encode(request),
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert other.stdout == msgspec.json.encode(ask(request))


@pytest.mark.parametrize(
    "spelled_out",
    [
        {"formats": {}},
        {"formats": {"weights": "auto", "kv_cache": "auto"}},
        {"runtime": {"flags": {}}},
        {"runtime": {"flags": {"enforce_eager": False, "enable_prefix_caching": True}}},
        {"workload": {"concurrent_sequences": 1}},
        {"hardware": {"memory_in_use_bytes": 0}},
    ],
    ids=str,
)
def test_a_default_that_is_spelled_out_changes_no_digest(spelled_out: Json) -> None:
    assert digest(patched(PLAIN, spelled_out)) == digest(PLAIN)


def test_a_null_where_nothing_need_be_said_changes_no_digest() -> None:
    request = {**PLAIN, "parallel": None}
    assert digest(request) == digest(PLAIN)
    assert digest({**PLAIN, "hardware": {"accelerator": "nvidia-l4", "count": None}}) == digest(
        PLAIN
    )


def test_another_question_has_another_digest() -> None:
    others = [
        asked(workload={"context_tokens": 8193}),
        asked(runtime={"version": "0.11.1"}),
        asked(runtime={"flags": {"gpu_memory_utilization": 0.91}}),
        asked(hardware={"memory_in_use_bytes": 1}),
        asked(formats={"weights": "fp8"}),
    ]
    assert len({digest(request) for request in [PLAIN, *others]}) == len(others) + 1


def test_the_identity_names_what_the_answer_depends_on(ask: Ask, seed: Release) -> None:
    identity = ask(PLAIN).identity
    assert identity.schema_version == 1
    assert identity.catalog_release == seed.number
    assert identity.catalog_digest == seed.digest
    assert identity.engine_version == ENGINE_VERSION
    assert identity.request_digest == digest(PLAIN)
    assert identity.request_digest.startswith("sha256:")
    assert len(identity.request_digest) == len("sha256:") + 64


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _integers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _integers(inner)


def test_every_integer_of_an_answer_is_exact_in_every_json_reader(ask: Ask) -> None:
    """RFC 8259 section 6: integers up to 2**53 - 1. What is larger is refused."""
    request = asked(workload={"context_tokens": 131_072, "concurrent_sequences": 10**9})
    try:
        answer = msgspec.to_builtins(ask(request))
    except EngineError:
        return
    assert max(abs(number) for number in _integers(answer)) < 2**53


def test_a_count_that_no_machine_has_is_refused(seed: Release) -> None:
    """Every accelerator has a line in the answer: a billion of them would fill the memory."""
    request = asked(hardware={"count": 10**9}, runtime=None)
    request["runtime"] = {"name": "llama.cpp"}
    with pytest.raises((msgspec.ValidationError, EngineError)):
        resolve(msgspec.convert(request, FitInferenceRequest), seed)


# --- remedies

TOO_LARGE: dict[str, Json] = {
    "long context": asked(workload={"context_tokens": 131_072}),
    "many sequences": asked(workload={"concurrent_sequences": 64}),
    "large model": asked(
        model="meta-llama/Llama-3.1-70B-Instruct", hardware={"accelerator": "H100"}
    ),
    "70B fp8, 64 x 32k": {
        "model": "meta-llama/Llama-3.1-70B-Instruct",
        "hardware": {"accelerator": "H100", "count": 1},
        "runtime": {"name": "vllm", "version": "0.11.0"},
        "formats": {"weights": "fp8"},
        "workload": {"context_tokens": 32_768, "concurrent_sequences": 64},
    },
    "experts": asked(
        model="openai/gpt-oss-120b",
        hardware={"accelerator": "H100"},
        workload={"context_tokens": 131_072, "concurrent_sequences": 4},
    ),
    "sliding window": asked(
        model="google/gemma-3-27b-it",
        hardware={"accelerator": "H100"},
        workload={"context_tokens": 131_072, "concurrent_sequences": 4},
    ),
    "latent": asked(
        model="deepseek-ai/DeepSeek-V3",
        hardware={"accelerator": "H200", "count": 8},
        workload={"context_tokens": 32_768, "concurrent_sequences": 64},
    ),
    "AMD": asked(
        model="meta-llama/Llama-3.1-405B-Instruct", hardware={"accelerator": "MI300X", "count": 2}
    ),
    "machine": {
        **asked(model="meta-llama/Llama-3.1-70B-Instruct"),
        "hardware": {"machine": "aws/g5.12xlarge"},
    },
    "older engine": asked(
        hardware={"accelerator": "RTX 3090"},
        runtime={"version": "0.6.4"},
        workload={"context_tokens": 29_000},
    ),
    "laptop": {
        "model": "meta-llama/Llama-2-13b-hf",
        "hardware": {"accelerator": "nvidia-rtx-4060-laptop"},
        "runtime": {"name": "llama.cpp"},
        "formats": {"weights": "q4_k_m"},
        "workload": {"context_tokens": 4096},
    },
    "laptop, no flash attention": {
        "model": "meta-llama/Llama-2-7b-hf",
        "hardware": {"accelerator": "nvidia-rtx-4060-laptop"},
        "runtime": {"name": "llama.cpp", "flags": {"flash_attn": False}},
        "formats": {"weights": "q8_0"},
        "workload": {"context_tokens": 4096, "concurrent_sequences": 2},
    },
    "notebook": {
        "model": "meta-llama/Llama-2-13b-hf",
        "hardware": {"accelerator": "RTX 4090"},
        "runtime": {"name": "transformers", "flags": {"attn_implementation": "eager"}},
        "workload": {"context_tokens": 4096},
    },
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_every_remedy_keeps_its_promise(ask: Ask, name: str) -> None:
    request = TOO_LARGE[name]
    answer = ask(request)
    assert answer.verdict != "fits"
    assert answer.remedies, answer.summary
    for remedy in answer.remedies:
        after = ask(patched(request, remedy.patch))
        assert after.verdict == remedy.verdict, remedy.patch
        assert ("does_not_fit", "tight", "fits").index(after.verdict) > (
            "does_not_fit",
            "tight",
            "fits",
        ).index(answer.verdict)
        assert remedy.cost


@pytest.mark.parametrize("name", TOO_LARGE)
def test_no_remedy_is_offered_twice_or_asks_for_what_is_so(ask: Ask, name: str) -> None:
    request = TOO_LARGE[name]
    patches = [remedy.patch for remedy in ask(request).remedies]
    assert all(patched(request, patch) != request for patch in patches)
    assert len({msgspec.json.encode(patch, order="sorted") for patch in patches}) == len(patches)


@pytest.mark.parametrize("name", TOO_LARGE)
def test_no_remedy_needs_what_the_device_does_not_support(ask: Ask, name: str) -> None:
    request = TOO_LARGE[name]
    for remedy in ask(request).remedies:
        says = ask(patched(request, remedy.patch)).support
        assert "no" not in (says.format_on_device, says.cache_format_on_device), remedy.patch


def test_what_fits_needs_no_remedy(ask: Ask) -> None:
    answer = ask(PLAIN)
    assert answer.verdict == "fits"
    assert answer.remedies == ()


def test_a_limit_that_is_too_long_is_lowered_rather_than_the_device_doubled(ask: Ask) -> None:
    """8,192 tokens are wanted; it is --max-model-len 131072 that does not start."""
    request = asked(runtime={"flags": {"max_model_len": 131_072}})
    answer = ask(request)
    assert answer.verdict == "does_not_fit"
    lowered = [
        remedy
        for remedy in answer.remedies
        if (remedy.patch.get("runtime") or {}).get("flags", {}).get("max_model_len", 10**9)
        < 131_072
    ]
    assert lowered


def test_a_server_that_is_refused_its_share_is_told_a_smaller_one(ask: Ask) -> None:
    """1 B on 22 GiB of which 6 are taken: 0.9 of the device is not free, 0.7 is."""
    request = asked(
        model="meta-llama/Llama-3.2-1B-Instruct",
        hardware={"memory_in_use_bytes": 6 * 2**30},
        runtime={"flags": {"gpu_memory_utilization": 0.9}},
    )
    answer = ask(request)
    assert answer.verdict == "does_not_fit"
    less = patched(request, {"runtime": {"flags": {"gpu_memory_utilization": 0.7}}})
    assert ask(less).verdict == "fits"
    smaller = [
        flags
        for remedy in answer.remedies
        if (flags := (remedy.patch.get("runtime") or {}).get("flags", {}))
        and flags.get("gpu_memory_utilization", 1) < 0.9
    ]
    assert smaller
    assert "to spare" not in answer.summary


def test_engine_v0_is_offered_no_batch_shorter_than_its_context(ask: Ask) -> None:
    """Without chunked prefill vLLM refuses max_num_batched_tokens below max_model_len."""
    for remedy in ask(TOO_LARGE["older engine"]).remedies:
        after = patched(TOO_LARGE["older engine"], remedy.patch)
        batched = after["runtime"].get("flags", {}).get("max_num_batched_tokens")
        assert batched is None or batched >= after["workload"]["context_tokens"]


# --- what is said


def test_an_ambiguous_name_is_said_to_be_one(ask: Ask) -> None:
    answer = ask(asked(hardware={"accelerator": "H100"}))
    (note,) = [note for note in answer.assumptions if note.code == "ambiguous_name"]
    assert note.pointer == "/hardware/accelerator"
    assert "nvidia-h100-80gb-sxm" in note.text
    assert "nvidia-h100-80gb-pcie" in note.text
    assert answer.subject.accelerator == "nvidia-h100-80gb-sxm"


def test_a_full_id_is_not_ambiguous(ask: Ask) -> None:
    answer = ask(asked(hardware={"accelerator": "nvidia-h100-80gb-pcie"}))
    assert "ambiguous_name" not in {note.code for note in answer.assumptions}


def test_what_is_taken_for_granted_is_said(ask: Ask) -> None:
    request = {
        "model": LLAMA,
        "hardware": {"accelerator": "nvidia-l4", "count": 2},
        "runtime": {"name": "vllm"},
        "workload": {"context_tokens": 8192},
    }
    said = {note.code for note in ask(request).assumptions}
    assert {
        "default_version",
        "checkpoint_format",
        "tensor_parallel_over_all",
        "default_gpu_memory_utilization",
        "max_model_len_is_context",
        "default_batch_limits",
    } <= said


@pytest.mark.parametrize(
    ("runtime", "flag"),
    [
        ("vllm", "max_num_seqs"),
        ("sglang", "max_running_requests"),
        ("tensorrt-llm", "max_batch_size"),
    ],
)
def test_sequences_beyond_a_limit_are_said_to_wait(ask: Ask, runtime: str, flag: str) -> None:
    request = asked(hardware={"accelerator": "H100"}, workload={"concurrent_sequences": 10})
    answer = ask({**request, "runtime": {"name": runtime, "flags": {flag: 4}}})
    (said,) = (note for note in answer.warnings if note.code == "sequences_are_queued")
    assert said.pointer == f"/runtime/flags/{flag}"
    assert "the other 6 wait" in said.text


def test_what_ollama_leaves_in_system_memory_is_not_missing(ask: Ask) -> None:
    """It starts with fewer layers on the device, and what it then holds is what is said."""
    request = asked(
        model="meta-llama/Llama-3.1-70B-Instruct",
        hardware={"accelerator": "RTX 4090"},
        formats={"weights": "q4_k_m"},
    )
    answer = ask({**request, "runtime": {"name": "ollama"}})
    assert answer.verdict != "does_not_fit"
    assert answer.capacity.sequences_at_context.expected >= 1
    assert answer.capacity.longest_context.expected >= 8192
    assert answer.capacity.kv_cache_bytes.expected > 0
    assert "layers_in_system_memory" in {note.code for note in answer.warnings}


def test_one_smaller_format_is_offered_for_each_number_of_accelerators(ask: Ask) -> None:
    held = {"accelerator": "RTX 4090", "memory_in_use_bytes": 20 * 2**30}
    request = asked(hardware=held, workload={"concurrent_sequences": 2})
    remedies = ask({**request, "runtime": {"name": "ollama"}}).remedies
    changes = [r.patch for r in remedies if r.verdict == "fits" and "hardware" in r.patch]
    counts = [patch["hardware"]["count"] for patch in changes if "formats" in patch]
    assert counts
    assert len(set(counts)) == len(counts)


@pytest.mark.parametrize("layers", [0, 1])
def test_a_draft_whose_layers_are_not_stated_is_said(ask: Ask, layers: int) -> None:
    config = {"method": "eagle", "draft_weights_bytes": 10**9, "draft_layers": layers}
    answer = ask(asked(runtime={"flags": {"speculative_config": config}}))
    codes = {note.code for note in answer.assumptions}
    assert ("draft_cache_not_counted" in codes) == (layers == 0)


@pytest.mark.parametrize(
    ("runtime", "weights"),
    [("vllm", "fp16"), ("sglang", "fp16"), ("tgi", "fp16"), ("transformers", "fp32")],
)
def test_servers_cast_a_float32_checkpoint(ask: Ask, runtime: str, weights: str) -> None:
    request = asked(model="state-spaces/mamba-130m-hf", workload={"context_tokens": 512})
    answer = ask({**request, "runtime": {"name": runtime}})
    assert answer.subject.weight_format == weights
    said = next(note.text for note in answer.assumptions if note.code == "checkpoint_format")
    assert ("casts those published in fp32" in said) == (weights == "fp16")


def test_accelerators_that_stay_idle_are_said(ask: Ask) -> None:
    answer = ask(asked(hardware={"count": 8}, parallel={"tensor": 2}))
    texts = " ".join(note.text for note in (*answer.assumptions, *answer.warnings))
    assert "6" in texts
    assert any(word in texts for word in ("idle", "unused", "not used"))


RUNTIMES = (
    "vllm",
    "sglang",
    "tensorrt-llm",
    "tgi",
    "llama.cpp",
    "transformers",
    "ollama",
    "mlx-lm",
    "exllamav2",
    "exllamav3",
)


@pytest.mark.parametrize("runtime", [name for name in RUNTIMES if "exllama" not in name])
def test_what_leaves_the_machine_is_said_with_how_to_stop_it(ask: Ask, runtime: str) -> None:
    flows = ask({**PLAIN, "runtime": {"name": runtime}}).data_flows
    assert flows
    assert all(flow.what and flow.destination and flow.when and flow.switch_off for flow in flows)


def test_vllm_reports_usage_unless_told_not_to(ask: Ask) -> None:
    (report,) = [flow for flow in ask(PLAIN).data_flows if "usage" in flow.what]
    assert report.by_default
    assert "VLLM_NO_USAGE_STATS" in report.switch_off


# --- names that mean nothing


@pytest.mark.parametrize(
    ("patch", "pointer", "suggestion"),
    [
        ({"model": "meta-llama/Lama-3.1-8B-Instrct"}, "/model", LLAMA),
        ({"hardware": {"accelerator": "nvidia-h1000"}}, "/hardware/accelerator", "nvidia-h100"),
        ({"formats": {"weights": "q4_k_mm"}}, "/formats/weights", "q4_k_m"),
        ({"formats": {"kv_cache": "q8_00"}}, "/formats/kv_cache", "q8_0"),
    ],
    ids=lambda value: str(value),
)
def test_an_unknown_name_is_refused_with_what_may_be_meant(
    ask: Ask, patch: Json, pointer: str, suggestion: str
) -> None:
    with pytest.raises(UnknownName) as refused:
        ask(asked(**patch))
    assert refused.value.pointer == pointer
    assert any(found.startswith(suggestion) for found in refused.value.suggestions)
    assert "Did you mean" in str(refused.value)


def test_an_unknown_machine_is_refused_with_what_may_be_meant(ask: Ask) -> None:
    with pytest.raises(UnknownName) as refused:
        ask({**PLAIN, "hardware": {"machine": "g5.12xlrge"}})
    assert refused.value.pointer == "/hardware/machine"
    assert "aws/g5.12xlarge" in refused.value.suggestions


def test_nothing_is_suggested_for_a_name_like_no_other(ask: Ask) -> None:
    with pytest.raises(UnknownName) as refused:
        ask(asked(model="zzzzqqqqxxxx"))
    assert refused.value.suggestions == ()


# --- parts that exclude each other

MIXTURE: Json = {
    "model": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "hardware": {"accelerator": "H100", "count": 6},
}
REFUSED: dict[str, tuple[Json, str]] = {
    "heads": (asked(hardware={"count": 3}, parallel={"tensor": 3}), "/parallel/tensor"),
    "heads, by default": (asked(hardware={"count": 3}), "/parallel/tensor"),
    "ranks": (asked(hardware={"count": 2}, parallel={"tensor": 2, "data": 2}), "/parallel"),
    "context": (asked(workload={"context_tokens": 131_073}), "/workload/context_tokens"),
    "max_model_len": (
        asked(runtime={"flags": {"max_model_len": 200_000}}),
        "/runtime/flags/max_model_len",
    ),
    "context over max_model_len": (
        asked(runtime={"flags": {"max_model_len": 4096}}),
        "/workload/context_tokens",
    ),
    "accelerator and machine": (asked(hardware={"machine": "aws/g5.12xlarge"}), "/hardware"),
    "neither": ({**PLAIN, "hardware": {}}, "/hardware"),
    "cache format": (asked(formats={"kv_cache": "q4_k_m"}), "/formats/kv_cache"),
    "count of machine": (
        {**PLAIN, "hardware": {"machine": "aws/g5.12xlarge", "count": 5}},
        "/hardware/count",
    ),
    "stages": (asked(hardware={"count": 64}, parallel={"pipeline": 33}), "/parallel/pipeline"),
    "no experts": (
        asked(hardware={"count": 2}, parallel={"tensor": 2, "expert": 2}),
        "/parallel/expert",
    ),
    "experts over some": (
        asked(**MIXTURE, parallel={"tensor": 4, "expert": 2}),
        "/parallel/expert",
    ),
    "experts do not divide": (
        asked(**MIXTURE, parallel={"tensor": 2, "data": 3, "expert": 6}),
        "/parallel/expert",
    ),
    "llama.cpp tensor": (
        {
            **asked(hardware={"count": 2}, parallel={"tensor": 2}),
            "runtime": {"name": "llama.cpp"},
        },
        "/parallel/tensor",
    ),
    "transformers data": (
        {
            **asked(hardware={"count": 2}, parallel={"data": 2}),
            "runtime": {"name": "transformers"},
        },
        "/parallel/data",
    ),
    "key/value heads": (
        asked(
            model="microsoft/Phi-3-medium-128k-instruct",
            hardware={"count": 4},
            parallel={"tensor": 4},
        ),
        "/parallel/tensor",
    ),
    "context over max_seq_len": (
        {**PLAIN, "runtime": {"name": "tensorrt-llm", "flags": {"max_seq_len": 4096}}},
        "/workload/context_tokens",
    ),
    "context over max_total_tokens": (
        {**PLAIN, "runtime": {"name": "tgi", "flags": {"max_total_tokens": 4096}}},
        "/workload/context_tokens",
    ),
    "context_length over the model's": (
        {**PLAIN, "runtime": {"name": "sglang", "flags": {"context_length": 1_000_000}}},
        "/runtime/flags/context_length",
    ),
    "stages of TGI": (
        {
            **asked(hardware={"count": 2}, parallel={"pipeline": 2}),
            "runtime": {"name": "tgi"},
        },
        "/parallel/pipeline",
    ),
    "draft weights of ngram": (
        asked(
            runtime={
                "flags": {"speculative_config": {"method": "ngram", "draft_weights_bytes": 10**9}}
            }
        ),
        "/runtime/flags/speculative_config/draft_weights_bytes",
    ),
    "draft layers of mtp": (
        asked(
            model="deepseek-ai/DeepSeek-V3",
            hardware={"accelerator": "H200", "count": 8},
            runtime={"flags": {"speculative_config": {"method": "mtp", "draft_layers": 4}}},
        ),
        "/runtime/flags/speculative_config/draft_layers",
    ),
    "more in use than there is": (
        asked(hardware={"memory_in_use_bytes": 40 * 2**30}),
        "/hardware/memory_in_use_bytes",
    ),
    "context ranks do not divide": (
        asked(
            model="deepseek-ai/DeepSeek-V3",
            hardware={"accelerator": "H200", "count": 8},
            runtime={"flags": {"decode_context_parallel_size": 3}},
        ),
        "/runtime/flags/decode_context_parallel_size",
    ),
    "context ranks without copies": (
        asked(
            hardware={"count": 8},
            runtime={"flags": {"decode_context_parallel_size": 2}},
        ),
        "/runtime/flags/decode_context_parallel_size",
    ),
    "context ranks of one rank": (
        asked(runtime={"flags": {"decode_context_parallel_size": 2}}),
        "/runtime/flags/decode_context_parallel_size",
    ),
    "another runtime's version": (asked(runtime={"version": "b6500"}), "/runtime/version"),
    "value cache of vLLM": (asked(formats={"kv_cache_values": "fp8"}), "/formats/kv_cache_values"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_contradiction_points_at_the_field(ask: Ask, name: str) -> None:
    request, pointer = REFUSED[name]
    with pytest.raises(Contradiction) as refused:
        ask(request)
    assert refused.value.pointer == pointer
    assert refused.value.message


@pytest.mark.parametrize("name", REFUSED)
def test_a_contradiction_says_what_would_do(ask: Ask, name: str) -> None:
    request, _ = REFUSED[name]
    with pytest.raises(Contradiction) as refused:
        ask(request)
    assert refused.value.remedy


def test_the_tensor_sizes_that_would_do_are_named(ask: Ask) -> None:
    with pytest.raises(Contradiction) as refused:
        ask(asked(hardware={"count": 6}, parallel={"tensor": 6}))
    assert refused.value.remedy == "one of 1, 2, 4"


@pytest.mark.parametrize(
    ("model", "wanted", "legal"),
    [
        ("deepseek-ai/DeepSeek-V3", 3, "one of 1, 2, 4, 8"),
        ("Qwen/Qwen3-30B-A3B", 4, "one of 1, 2"),
        (LLAMA, 2, "1"),
    ],
    ids=["one latent", "four heads", "a head a rank"],
)
def test_the_context_ranks_that_would_do_are_named(
    ask: Ask, model: str, wanted: int, legal: str
) -> None:
    with pytest.raises(Contradiction) as refused:
        ask(
            asked(
                model=model,
                hardware={"accelerator": "H200", "count": 8},
                runtime={"flags": {"decode_context_parallel_size": wanted}},
            )
        )
    assert refused.value.remedy == legal


def test_a_format_for_caches_alone_is_none_for_weights(seed: Release) -> None:
    turbo = FormatRecord(
        id="turbo-cache",
        name="A cache format",
        sources=seed.records["formats"]["fp8"].sources,
        family="integer",
        cache=CacheEncoding(bits_per_element=4),
    )
    records = [record for found in seed.records.values() for record in found.values()]
    release = Release(2, [*records, turbo])
    request = msgspec.convert(asked(formats={"weights": "turbo-cache"}), FitInferenceRequest)
    with pytest.raises(Contradiction) as refused:
        answer_fit(request, release)
    assert refused.value.pointer == "/formats/weights"
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("name", "version"), [("vllm", "0.1.0"), ("llama.cpp", "b100"), ("transformers", "4.0.0")]
)
def test_a_runtime_older_than_the_facts_is_refused(ask: Ask, name: str, version: str) -> None:
    with pytest.raises(NotModelled) as refused:
        ask({**PLAIN, "runtime": {"name": name, "version": version}})
    assert refused.value.pointer == "/runtime/version"
    assert refused.value.remedy
    assert "newer" in refused.value.remedy


# --- sent inline


def test_an_inline_model_is_answered_like_its_twin_in_the_catalog(ask: Ask, seed: Release) -> None:
    for model_id in (LLAMA, "deepseek-ai/DeepSeek-V3", "Qwen/Qwen3-Next-80B-A3B-Instruct"):
        record = seed.records["models"][model_id]
        assert isinstance(record, ModelRecord)
        request = asked(model=model_id, hardware={"accelerator": "H200", "count": 8})
        inline = {
            **request,
            "model": {
                "architecture": msgspec.to_builtins(record.architecture),
                "checkpoint_format": record.checkpoint_format,
                "name": record.name,
            },
        }
        named, sent = ask(request), ask(inline)
        assert _without_names(sent) == _without_names(named)
        assert sent.subject.model is None


def test_an_inline_accelerator_is_answered_like_its_twin(ask: Ask, seed: Release) -> None:
    for device in ("nvidia-l4", "nvidia-h100-80gb-sxm", "amd-mi300x"):
        record = seed.records["accelerators"][device]
        assert isinstance(record, AcceleratorRecord)
        request = asked(hardware={"accelerator": device})
        inline = {
            **request,
            "hardware": {"accelerator": msgspec.to_builtins(seed.accelerator(record))},
        }
        named, sent = ask(request), ask(inline)
        assert _without_names(sent) == _without_names(named)
        assert sent.subject.accelerator is None


def _without_names(answer: FitInferenceAnswer) -> FitInferenceAnswer:
    subject = msgspec.structs.replace(answer.subject, model=None, accelerator=None)
    identity = msgspec.structs.replace(answer.identity, request_digest="")
    return msgspec.structs.replace(answer, subject=subject, identity=identity)


def test_an_inline_spec_sheet_without_usable_memory_says_so(ask: Ask) -> None:
    device = {"name": "New card", "marketed_memory_bytes": 24 * 2**30, "stacks": ["cuda"]}
    answer = ask(asked(hardware={"accelerator": device}))
    assert "usable_memory_derived" in {note.code for note in answer.assumptions}
    assert answer.ledger[0].usable < 24 * 2**30


@pytest.mark.parametrize(
    ("stack", "described", "pointer"),
    [
        (["one", "two"], ["one"], "/model/architecture/stack"),
        (["one"], ["one", "two"], "/model/architecture/layers"),
        (["one"], ["one", "one"], "/model/architecture/layers"),
    ],
)
def test_an_inline_stack_must_be_described(
    ask: Ask, stack: list[str], described: list[str], pointer: str
) -> None:
    attention = {"kind": "attention", "query_heads": 8, "key_value_heads": 8, "head_dim": 64}
    architecture = {
        "hidden_size": 512,
        "vocabulary_size": 1000,
        "longest_context_tokens": 8192,
        "layers": [{"name": name, "mixers": [attention]} for name in described],
        "stack": [{"layers": stack}],
    }
    with pytest.raises(Contradiction) as refused:
        ask({**PLAIN, "model": {"architecture": architecture}})
    assert refused.value.pointer == pointer


def test_every_priced_model_of_the_catalog_is_answered_under_every_runtime(
    ask: Ask, seed: Release
) -> None:
    for record in seed.records["models"].values():
        assert isinstance(record, ModelRecord)
        if record.architecture is None:
            continue
        for runtime in RUNTIMES:
            context = min(512, record.architecture.longest_context_tokens)
            answer = ask(
                {
                    "model": record.id,
                    "hardware": {"accelerator": "H200"},
                    "runtime": {"name": runtime},
                    "workload": {"context_tokens": context},
                }
            )
            assert answer.summary, record.id


def test_a_memory_that_was_taken_is_in_every_ledger(ask: Ask) -> None:
    answer = ask(asked(hardware={"count": 2, "memory_in_use_bytes": 2**30}))
    for ledger in answer.ledger:
        assert ledger.amount("in_use").expected == 2**30


def test_two_stages_have_a_ledger_each(ask: Ask) -> None:
    answer = ask(asked(hardware={"count": 4}, parallel={"tensor": 2, "pipeline": 2}))
    assert [ledger.accelerators for ledger in answer.ledger] == [(0, 1), (2, 3)]


# --- does runtime, format and device go together?


@pytest.mark.parametrize(
    ("runtime", "device", "weights", "on_device", "with_format"),
    [
        ("vllm", "A100-80GB", "fp8", "yes", "limited"),
        ("vllm", "A100-80GB", "nvfp4", "yes", "limited"),
        ("vllm", "nvidia-l4", "fp8", "yes", "yes"),
        ("vllm", "H100", "nvfp4", "yes", "limited"),
        ("vllm", "B200", "nvfp4", "yes", "yes"),
        ("vllm", "H100", "mxfp4", "yes", "limited"),
        ("vllm", "T4", "bf16", "yes", "no"),
        ("vllm", "T4", "fp16", "yes", "yes"),
        ("vllm", "T4", "fp8", "yes", "limited"),
        ("vllm", "MI300X", "bf16", "yes", "yes"),
        ("vllm", "MI300X", "fp8", "yes", "yes"),
        ("vllm", "MI300X", "bnb-nf4", "yes", "no"),
        ("vllm", "MI300X", "nvfp4", "yes", "no"),
        ("transformers", "MI300X", "bnb-nf4", "yes", "yes"),
        ("transformers", "A100-80GB", "fp8", "yes", "no"),
        ("llama.cpp", "nvidia-rtx-4060-laptop", "q4_k_m", "yes", "yes"),
        ("llama.cpp", "M4 Pro", "q4_k_m", "yes", "yes"),
        ("llama.cpp", "MI300X", "q4_k_m", "yes", "yes"),
    ],
)
def test_support_is_read_from_the_catalog(
    ask: Ask, runtime: str, device: str, weights: str, on_device: str, with_format: str
) -> None:
    answer = ask(
        {
            "model": LLAMA,
            "hardware": {"accelerator": device},
            "runtime": {"name": runtime},
            "formats": {"weights": weights},
            "workload": {"context_tokens": 1024},
        }
    )
    assert answer.support.runtime_on_device == on_device
    assert answer.support.format_on_device == with_format
    assert answer.support.notes or (on_device, with_format) == ("yes", "yes")


@pytest.mark.parametrize(("device", "weights"), [("A100-80GB", "fp8"), ("A100-80GB", "nvfp4")])
def test_a_format_below_its_hardware_is_weight_only(ask: Ask, device: str, weights: str) -> None:
    answer = ask(asked(hardware={"accelerator": device}, formats={"weights": weights}))
    codes = {note.code for note in answer.support.notes}
    assert "format_is_weight_only" in codes


def test_the_v100_is_too_old_for_vllm(ask: Ask) -> None:
    request = asked(hardware={"accelerator": "V100"}, formats={"weights": "fp16"})
    support = ask(request).support
    assert support.runtime_on_device == "no"
    assert any("7.0" in note.text for note in support.notes)


def test_an_fp8_cache_on_ampere_is_limited(ask: Ask) -> None:
    request = asked(hardware={"accelerator": "A100-80GB"}, formats={"kv_cache": "fp8"})
    assert ask(request).support.cache_format_on_device == "limited"


def test_apple_under_vllm_is_not_said_to_be_supported_on_its_gpu(ask: Ask) -> None:
    support = ask(asked(hardware={"accelerator": "M4 Pro"})).support
    assert support.runtime_on_device in ("limited", "no")
    assert support.notes


def test_silence_is_never_read_as_yes(ask: Ask) -> None:
    request = {
        **asked(formats={"weights": "exl2-4.0bpw"}),
        "runtime": {"name": "llama.cpp"},
    }
    support = ask(request).support
    assert support.format_on_device == "unknown"
    assert any("verify" in note.text for note in support.notes)


@pytest.mark.parametrize("device", ["amd-mi210", "amd-mi250x", "amd-rx-7900-xtx"])
def test_fp8_is_not_promised_where_amd_has_none(ask: Ask, device: str) -> None:
    """vLLM has fp8 on gfx942, gfx950 and RDNA 4; these are gfx90a and gfx1100."""
    request = asked(hardware={"accelerator": device}, formats={"weights": "fp8"})
    assert ask(request).support.format_on_device != "yes"


@pytest.mark.parametrize("device", ["amd-rx-6800", "amd-rx-6700-xt"])
def test_vllm_is_not_promised_on_amd_targets_that_it_does_not_list(ask: Ask, device: str) -> None:
    support = ask(asked(hardware={"accelerator": device})).support
    assert support.runtime_on_device != "yes"


def test_an_image_generator_is_refused_with_what_is_known_of_it(ask: Ask) -> None:
    """FLUX.1-dev: 11.9 billion parameters of the transformer are 22.17 GiB in 16 bits."""
    with pytest.raises(NotModelled) as refused:
        ask(asked(model="black-forest-labs/FLUX.1-dev"))
    assert refused.value.pointer == "/model"
    assert "transformer 22.17" in refused.value.message
    assert "all resident 31.4" in refused.value.message
    assert "activations" in refused.value.message
