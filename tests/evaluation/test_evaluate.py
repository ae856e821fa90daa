"""The engine held against measured cases, and what a file of them may look like."""

import json
from pathlib import Path

import msgspec
import pytest

from tonnage.catalog.release import Release
from tonnage.catalog.seed import seed_release
from tonnage.evaluation import (
    Evaluation,
    EvaluationError,
    evaluate_file,
    predict_file,
    render,
    render_rows,
    summarise,
)
from tonnage.evaluation.results import Prediction
from tonnage.evaluation.scoring import percentile
from tonnage.evaluation.versions import llama_cpp_version, vllm_version

CASES = Path(__file__).parent / "cases"


@pytest.fixture(scope="module")
def release() -> Release:
    return seed_release()


@pytest.fixture(scope="module")
def inference(release: Release) -> Evaluation:
    return evaluate_file(CASES / "inference_memory.jsonl", release)


@pytest.fixture(scope="module")
def local(release: Release) -> Evaluation:
    return evaluate_file(CASES / "local_memory.jsonl", release)


@pytest.mark.parametrize(
    ("quantity", "least_rows", "median", "p90"),
    [
        ("weights_gib_per_gpu", 28, 0.007, 0.03),
        ("kv_tokens_given_memory", 22, 0.0005, 0.002),
        ("available_kv_share_of_device", 29, 0.015, 0.05),
        ("max_concurrency", 15, 0.05, 0.25),
    ],
)
def test_inference_errors_stay_within_bands(
    inference: Evaluation, quantity: str, least_rows: int, median: float, p90: float
) -> None:
    found = inference.metrics[quantity]
    assert found.n >= least_rows
    assert found.median_abs_error <= median
    assert found.p90_abs_error <= p90


@pytest.mark.parametrize(
    ("quantity", "least_rows", "median", "p90"),
    [
        ("weights_mib", 19, 0.001, 0.02),
        ("kv_mib", 22, 0.0005, 0.005),
        ("compute_mib", 16, 0.15, 0.60),
        ("total_mib", 9, 0.03, 0.15),
    ],
)
def test_local_errors_stay_within_bands(
    local: Evaluation, quantity: str, least_rows: int, median: float, p90: float
) -> None:
    found = local.metrics[quantity]
    assert found.n >= least_rows
    assert found.median_abs_error <= median
    assert found.p90_abs_error <= p90


def test_outcomes(inference: Evaluation, local: Evaluation) -> None:
    assert inference.outcome.n >= 25
    assert inference.outcome.false_fits + inference.outcome.false_rejections <= 4
    assert local.outcome.n >= 13
    assert local.outcome.false_fits + local.outcome.false_rejections <= 1


def test_every_row_is_scored_or_skipped_with_a_reason(
    inference: Evaluation, local: Evaluation
) -> None:
    for found in (inference, local):
        assert found.rows == found.scored + sum(found.skipped.values())
    assert inference.skipped == {"quality C is not scored": 1}
    assert local.skipped == {}


def test_json_has_the_published_shape(inference: Evaluation) -> None:
    plain = json.loads(msgspec.json.encode(inference))
    assert " ".join(plain) == "kind rows scored skipped metrics outcome groups"
    metric = {"n", "median_abs_error", "p90_abs_error", "bias", "coverage_90", "unit"}
    outcome = {"n", "right", "false_fits", "false_rejections", "tight_failed", "tight_ran"}
    assert all(set(found) == metric for found in plain["metrics"].values())
    assert set(plain["outcome"]) == outcome
    assert plain["metrics"]["weights_gib_per_gpu"]["unit"] == "relative"
    assert plain["metrics"]["kv_tokens_given_memory"]["coverage_90"] is None
    assert plain["metrics"]["available_kv_share_of_device"]["unit"] == "share of device memory"
    assert {"vllm", "vllm since 0.9.0", "weights bf16"} <= set(plain["groups"])
    assert set(plain["groups"]["vllm"]) == {"rows", "metrics", "outcome"}


def test_table_and_rows_are_readable(release: Release, inference: Evaluation) -> None:
    findings = predict_file(CASES / "inference_memory.jsonl", release)
    assert summarise(findings) == inference
    table = render(inference)
    assert table.startswith("inference_memory: 38 rows, 37 scored\n")
    assert "weights_gib_per_gpu" in table
    assert "quality C is not scored" in table
    lines = render_rows(findings)
    assert "vllm-log-056-qwen25-15b-l40s: weights_gib_per_gpu" in lines
    assert "blog-gptoss20b-a100: kv_tokens_given_memory left out, a hybrid's" in lines


def test_progress_is_told(release: Release) -> None:
    told: list[tuple[int, int]] = []
    evaluate_file(
        CASES / "inference_memory.jsonl", release, progress=lambda n, of: told.append((n, of))
    )
    assert told == [(n, 38) for n in range(1, 39)]


def test_a_file_without_the_models_beside_it_still_counts_its_rows(
    release: Release, tmp_path: Path
) -> None:
    row = _first("inference_memory")
    row["model"] = row["base_model"] = "nobody/knows"
    path = _written(tmp_path, [row])
    found = evaluate_file(path, release)
    assert found.skipped == {"the model's architecture is not known": 1}
    beside = {
        "model": "nobody/knows",
        "architecture": "LlamaForCausalLM",
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "vocab_size": 100,
        "tie_word_embeddings": False,
        "max_position_embeddings": 10**6,
    }
    (tmp_path / "inference_models.jsonl").write_text(json.dumps(beside) + "\nnot json\n")
    assert evaluate_file(path, release).scored == 1


def test_doubtful_rows_are_counted_and_not_scored(release: Release, tmp_path: Path) -> None:
    row = _first("inference_memory") | {"quality": "C"}
    found = evaluate_file(_written(tmp_path, [row]), release)
    assert found.skipped == {"quality C is not scored": 1}
    assert found.metrics == {}


def test_a_row_of_other_types_is_counted(release: Release, tmp_path: Path) -> None:
    good, bad = _first("local_memory"), _first("local_memory")
    bad["setup"] = {"n_ctx": "many"}
    found = evaluate_file(_written(tmp_path, [good, bad]), release)
    assert found.skipped == {"the row does not have the fields of its kind": 1}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "cases.jsonl has no rows."),
        ("\n  \n", "cases.jsonl has no rows."),
        ('{"id": "a"}\n{"id": \n', "Line 2 of cases.jsonl is not JSON: "),
        ("[1]\n", "Line 1 of cases.jsonl is not a JSON object."),
        ('{"id": "a"}\n', "The rows of cases.jsonl are of no kind that is known; "),
        ('{"test": "pp512", "tokens_per_s": 1}\n', "local_speed is not modelled yet; "),
        (
            '{"framework": "x", "observed": {"peak_memory_gib_per_gpu": 1}}\n',
            "training_memory is not modelled yet; ",
        ),
        ('{"file": "a.yaml", "expect": {}}\n', "artifacts is not modelled yet; "),
    ],
)
def test_files_that_can_not_be_evaluated(
    release: Release, tmp_path: Path, text: str, problem: str
) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(text)
    with pytest.raises(EvaluationError) as found:
        evaluate_file(path, release)
    assert found.value.message.startswith(problem)


def test_a_missing_file(release: Release, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"can not be read: no such file or directory"):
        evaluate_file(tmp_path / "none.jsonl", release)


def test_a_file_that_is_not_text(release: Release, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(EvaluationError, match=r"it is not UTF-8 text"):
        evaluate_file(path, release)


def test_an_unknown_kind(release: Release) -> None:
    with pytest.raises(EvaluationError, match=r"^'speed' is not a kind of cases; one of "):
        evaluate_file(CASES / "local_memory.jsonl", release, kind="speed")


def test_a_forced_kind_that_no_row_is_of(release: Release, tmp_path: Path) -> None:
    path = _written(tmp_path, [{"id": "a"}])
    with pytest.raises(EvaluationError, match=r"No row of .* has the fields of local_memory"):
        evaluate_file(path, release, kind="local_memory")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.11.0", "0.11.0"),
        ("0.8.5.post1", "0.8.5"),
        ("0.20.2rc1.dev249+glm", "0.20.2"),
        ("0.6.x", "0.6.9"),
        ("0.8.1 (V0)", "0.7.3"),
        ("0.6.6.post2.dev274 (V1)", "0.8.0"),
        ("0.1.dev18496+gd4e0675a7", None),
        ("dev (patched)", None),
        (None, None),
    ],
)
def test_versions_as_logs_write_them(text: str | None, version: str | None) -> None:
    assert vllm_version(text) == version


def test_builds_as_llama_cpp_writes_them() -> None:
    assert llama_cpp_version("llama.cpp", "1691 (7082d24)") == "b1691"
    assert llama_cpp_version("llama.cpp", None) is None
    assert llama_cpp_version("ik_llama.cpp", "3751 (8b3002bb)") == "b3600"


def test_percentile_is_linear_between_ranks() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert percentile([1.0], 0.9) == 1.0


def test_an_error_is_signed_and_an_interval_may_be_none() -> None:
    found = Prediction(quantity="kv_mib", predicted=90, observed=100, low=90, high=90)
    assert found.error == pytest.approx(-0.1)
    assert not found.has_interval
    share = msgspec.structs.replace(found, scale=200.0, high=110)
    assert share.error == pytest.approx(-0.05)
    assert share.covered


def _first(kind: str) -> dict[str, object]:
    text = (CASES / f"{kind}.jsonl").read_text().split("\n")[0]
    row: dict[str, object] = json.loads(text)
    return row


def _written(folder: Path, rows: list[dict[str, object]]) -> Path:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
