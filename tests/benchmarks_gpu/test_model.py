"""Random models have the dimensions of real ones."""

from __future__ import annotations

import pytest

from benchmarks.gpu.engines import flags, transfer
from benchmarks.gpu.model import Shape
from kvrelay.data.models import model


@pytest.mark.parametrize("name", ["Qwen/Qwen3-4B", "Qwen/Qwen3-8B"])
def test_a_dense_shape_is_the_models_own(name: str) -> None:
    shape = Shape.of(name)
    config, real = shape.config(), model(name).config
    dimensions = (
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_key_value_heads",
        "vocab_size",
    )
    assert {key: config[key] for key in dimensions} == {key: real[key] for key in dimensions}
    assert shape.kv_bytes_per_token == 147_456
    assert not shape.hybrid


def test_a_hybrid_shape_caches_its_full_attention_layers_only() -> None:
    shape = Shape.part_of_hybrid()
    assert shape.hybrid
    assert shape.attention_layers == 2
    # 32 layers have 32,768 bytes a token.
    assert shape.kv_bytes_per_token == 32_768 // 4
    assert shape.config()["text_config"]["num_hidden_layers"] == 8
    assert shape.config()["architectures"] == ["Qwen3_5ForConditionalGeneration"]


def test_arguments_go_as_vllms_command_line_takes_them() -> None:
    arguments = {"max_model_len": 512, "enforce_eager": True, "enable_prefix_caching": False, "dtype": None}
    assert flags(arguments) == ["--max-model-len", "512", "--enforce-eager", "--no-enable-prefix-caching"]
    assert flags({"kv_transfer_config": transfer("kv_producer")})[1].startswith(
        '{"kv_connector": "NixlConnector"'
    )
