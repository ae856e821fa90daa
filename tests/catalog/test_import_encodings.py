"""A checkpoint's own recipe: what it leaves unquantized, by its names or its configuration."""

from typing import Any

import pytest

from tonnage.catalog.importing import architecture_from_config
from tonnage.catalog.importing.encodings import own_encoding
from tonnage.catalog.importing.records import import_model
from tonnage.catalog.importing.requests import ImportModelRequest
from tonnage.catalog.importing.sizes import encoding_of
from tonnage.engine.precision import WeightEncoding

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}


def compressed(group: int, bits: int, kind: str, ignore: list[str]) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": kind, "strategy": "group", "group_size": group}
    return {
        **CONFIG,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights}},
            "ignore": ignore,
        },
    }


def encoding(config: dict[str, Any], form: str, names: tuple[str, ...] = ()) -> WeightEncoding:
    found = own_encoding(encoding_of(form), architecture_from_config(config), config, names)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "pattern", ["re:.*self_attn.*", "*self_attn*", "re:model\\.layers\\.\\d+\\.self_attn\\..*"]
)
def test_attention_that_is_ignored_stays_in_sixteen_bits(pattern: str) -> None:
    found = encoding(compressed(16, 4, "float", [pattern, "lm_head"]), "nvfp4")
    for role in ("query", "key", "value", "attention_output"):
        assert found.bits(role) == 16
    assert found.bits("expert_gate_up") == 4.5
    assert found.other_recipe is None


@pytest.mark.parametrize(
    "prefix",
    ["model.", "model.language_model.", "language_model.model.", "re:language_model\\.model\\."],
)
def test_layers_inside_a_multimodal_model_are_known_by_their_whole_names(prefix: str) -> None:
    ignored = [f"{prefix}layers.{layer}.self_attn.q_proj" for layer in range(4)]
    found = encoding(compressed(16, 4, "float", ignored), "nvfp4")
    assert found.bits("query") == 16
    assert found.bits("key") == 4.5


def test_layers_of_a_tower_are_not_those_of_the_text() -> None:
    ignored = [f"vision_tower.layers.{layer}.self_attn.q_proj" for layer in range(4)]
    config = compressed(16, 4, "float", ignored)
    architecture = architecture_from_config(config)
    assert own_encoding(encoding_of("nvfp4"), architecture, config, ()) is None


def test_a_group_size_that_the_text_part_states_is_read() -> None:
    config = compressed(32, 4, "int", ["lm_head"])
    text = {"quantization_config": config.pop("quantization_config")}
    inside = {**config, "text_config": text}
    found = own_encoding(encoding_of("w4a16"), architecture_from_config(CONFIG), inside, ())
    assert found is not None
    assert found.bits_per_weight == 4 + 16 / 32


def test_layers_that_are_ignored_one_by_one_count_by_their_share() -> None:
    ignored = ["model.layers.0.self_attn.q_proj", "model.layers.3.self_attn.q_proj"]
    found = encoding(compressed(16, 4, "float", ignored), "nvfp4")
    assert found.bits("query") == pytest.approx((16 + 4.5) / 2)
    assert found.bits("key") == 4.5


def test_a_smaller_group_has_more_scales() -> None:
    found = encoding(compressed(32, 4, "int", []), "w4a16")
    assert found.bits_per_weight == 4.5


def test_names_say_more_than_the_configuration() -> None:
    names = (
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.o_proj.weight_packed",
        "model.layers.0.self_attn.o_proj.weight_scale",
        "model.layers.0.mlp.experts.0.gate_proj.weight_packed",
        "model.layers.0.mlp.experts.0.gate_proj.weight_scale",
        "lm_head.weight",
    )
    found = encoding(compressed(128, 4, "int", []), "w4a16", names)
    assert found.bits("query") == 16
    assert found.bits("attention_output") == 4.125
    assert found.bits("expert_gate_up") == 4.125
    assert found.bits("output_head") == 16


def test_an_unquantized_checkpoint_has_no_recipe_of_its_own() -> None:
    assert own_encoding(encoding_of("bf16"), architecture_from_config(CONFIG), CONFIG, ()) is None


def test_a_pattern_that_would_take_for_ever_is_only_a_glob() -> None:
    config = compressed(16, 4, "float", ["re:(a+)+$", "re:[", "re:" + "(.*)*" * 50])
    own_encoding(encoding_of("nvfp4"), architecture_from_config(config), config, ())


def test_an_imported_model_is_priced_by_its_own_recipe() -> None:
    config = compressed(16, 4, "float", ["re:.*self_attn.*"])
    record = import_model(ImportModelRequest(id="you/model", config=config)).record
    assert record.checkpoint_format == "nvfp4"
    assert record.checkpoint_encoding is not None
    assert record.checkpoint_encoding.bits("query") == 16
