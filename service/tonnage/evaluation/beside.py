"""Architectures of models that the catalog lacks, from ``inference_models.jsonl`` beside a file.

Its rows hold the fields of a configuration under transformers' names, with few of their own; plain
text decoders are read through the importer and everything else is left to the catalog.
"""

import json
from pathlib import Path
from typing import Any

from tonnage.catalog.importing import architecture_from_config
from tonnage.engine.errors import EngineError
from tonnage.engine.model import ModelArchitecture

FILE = "inference_models.jsonl"

MODEL_TYPES = {
    "DeepseekV2ForCausalLM": "deepseek_v2",
    "DeepseekV3ForCausalLM": "deepseek_v3",
    "KimiK25ForConditionalGeneration": "deepseek_v3",
    "GemmaForCausalLM": "gemma",
    "GptOssForCausalLM": "gpt_oss",
    "LlamaForCausalLM": "llama",
    "MiniMaxM2ForCausalLM": "minimax_m2",
    "MistralForCausalLM": "mistral",
    "MistralModel (pooling)": "mistral",
    "MixtralForCausalLM": "mixtral",
    "OPTForCausalLM": "opt",
    "Phi3ForCausalLM": "phi3",
    "QWenLMHeadModel": "qwen2",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3ForCausalLM (pooling, no lm_head)": "qwen3",
    "Qwen3MoeForCausalLM": "qwen3_moe",
    "Starcoder2ForCausalLM": "starcoder2",
}
NOT_OF_A_CONFIG = frozenset(
    {
        "active_params",
        "architecture",
        "audio",
        "layer_pattern",
        "mlp",
        "model",
        "note",
        "params_source",
        "quantized_variants",
        "source",
        "total_params",
        "vision",
    }
)
RENAMED = {"first_k_dense": "first_k_dense_replace", "shared_experts": "n_shared_experts"}


def architectures_beside(path: Path) -> dict[str, ModelArchitecture]:
    """By model name; empty where there is no such file. What can not be read is left out."""
    try:
        lines = (path.parent / FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for line in lines:
        try:
            row = json.loads(line)
            found[row["model"]] = _architecture(row)
        except (json.JSONDecodeError, EngineError, KeyError, TypeError):
            continue
    return found


def _architecture(row: dict[str, Any]) -> ModelArchitecture:
    config = {
        RENAMED.get(name, name): value
        for name, value in row.items()
        if name not in NOT_OF_A_CONFIG and value is not None
    }
    config["model_type"] = MODEL_TYPES[row["architecture"]]
    if "pooling" in row["architecture"]:
        config["architectures"] = ["Model"]
    if config["model_type"].startswith("deepseek"):
        config["n_routed_experts"] = config.pop("num_experts")
    if config["model_type"] == "opt":
        config["ffn_dim"] = config.pop("intermediate_size")
    return architecture_from_config(config)
