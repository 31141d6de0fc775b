"""Model shapes: as many parameters and cache bytes as their makers publish."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrelay.data import instance_type
from kvrelay.data.models import Model, model, models_known
from kvrelay.data.unknown import UnknownNameError
from kvrelay.planner.cache import cache_shape, layer_token_bytes
from kvrelay.planner.engine import Engine
from kvrelay.planner.fields import ModelConfigError
from kvrelay.planner.fit import GIB, MIB, fit
from kvrelay.planner.model_config import known_shape, read_shape, shape_of
from kvrelay.planner.parameters import active, count
from kvrelay.planner.weights import weight_bytes

WITH_COUNT = [each for each in models_known() if each.parameters]
WITH_CACHE = [each for each in models_known() if each.kv_bytes_per_token]
WITH_CHECKPOINT = [each for each in models_known() if each.checkpoint_gib]
MTP_APART = ("deepseek-ai/",)
"""Makers who publish the model's size without its MTP head."""


def by_id(each: Model) -> str:
    return each.id


@pytest.mark.parametrize("known", WITH_COUNT, ids=by_id)
def test_parameters_are_within_one_percent_of_the_published_count(known: Model) -> None:
    parts = count(shape_of(known.config, known.id))
    counted = parts.text + parts.vision if known.id.startswith(MTP_APART) else parts.total
    assert counted == pytest.approx(known.parameters, rel=0.01)


def test_every_family_of_the_issue_has_a_published_count() -> None:
    families = {shape_of(each.config, each.id).model_type for each in WITH_COUNT}
    assert families >= {
        "qwen3",
        "qwen3_moe",
        "qwen3_5_text",
        "qwen3_5_moe_text",
        "llama",
        "mistral",
        "gemma3_text",
        "gpt_oss",
        "deepseek_v3",
        "phi3",
    }


@pytest.mark.parametrize("known", WITH_CACHE, ids=by_id)
def test_cache_bytes_a_token_are_the_published_ones(known: Model) -> None:
    assert cache_shape(shape_of(known.config, known.id)).token == known.kv_bytes_per_token


@pytest.mark.parametrize("known", WITH_CHECKPOINT, ids=by_id)
def test_quantized_checkpoints_are_as_large_as_published(known: Model) -> None:
    shape = shape_of(known.config, known.id)
    assert weight_bytes(shape, shape.weights, vision=True) / GIB == pytest.approx(
        known.checkpoint_gib, rel=0.01
    )


@pytest.mark.parametrize(
    ("id", "published"),
    [("openai/gpt-oss-20b", 3.61e9), ("openai/gpt-oss-120b", 5.13e9), ("deepseek-ai/DeepSeek-V3", 37e9)],
)
def test_a_mixture_of_experts_multiplies_only_the_chosen_ones(id: str, published: float) -> None:
    assert active(known_shape(id)) == pytest.approx(published, rel=0.015)


def test_the_reference_model_is_as_large_as_the_facts_say() -> None:
    shape = known_shape("Qwen/Qwen3.5-9B")
    parts = count(shape)
    assert parts.text * 2 / GIB == pytest.approx(16.68, rel=0.03)
    assert parts.vision * 2 / GIB == pytest.approx(0.84, rel=0.03)
    assert parts.mtp * 2 / GIB == pytest.approx(0.45, rel=0.03)
    cache = cache_shape(shape)
    assert cache.token == 32 * 1024
    assert cache.state / MIB == pytest.approx(49, rel=0.03)
    assert cache.sequence(4096) / MIB == pytest.approx(181.5, rel=0.03)


def test_a_hybrid_block_is_large_enough_for_a_state() -> None:
    cache = cache_shape(known_shape("Qwen/Qwen3.5-9B"))
    assert cache.block_tokens % 16 == 0
    assert cache.padded_state >= cache.state


def test_a_hybrid_prompt_travels_without_its_last_token_and_its_padding() -> None:
    cache = cache_shape(known_shape("Qwen/Qwen3.5-9B"))
    block = cache.block_tokens
    assert cache.travels(block + 1) == cache.travels(1) < cache.travels(block + 2)
    assert cache.sequence(block) - cache.travels(block) == cache.padded_state - cache.state
    dense = cache_shape(known_shape("Qwen/Qwen3-8B"))
    assert [dense.travels(tokens) for tokens in (1, 17)] == [dense.sequence(tokens) for tokens in (1, 17)]


def test_a_window_stops_growing() -> None:
    cache = cache_shape(known_shape("google/gemma-3-27b-it"))
    growth_inside = cache.sequence(1024) - cache.sequence(512)
    growth_beyond = cache.sequence(65536 + 512) - cache.sequence(65536)
    assert growth_inside == 512 * cache.token
    assert growth_beyond == 512 * cache.full_token


def test_a_latent_cache_is_not_split_over_gpus_but_heads_are() -> None:
    deepseek, llama = known_shape("deepseek-ai/DeepSeek-V3"), known_shape("meta-llama/Llama-3.1-70B-Instruct")
    assert layer_token_bytes(deepseek, tensor_parallel=8) == layer_token_bytes(deepseek)
    assert layer_token_bytes(llama, tensor_parallel=8) * 8 == layer_token_bytes(llama)
    # More GPUs than heads: each still holds one.
    assert layer_token_bytes(llama, tensor_parallel=16) == layer_token_bytes(llama, tensor_parallel=8)


def test_an_fp8_cache_is_half_as_large() -> None:
    shape = known_shape("Qwen/Qwen3-8B")
    assert cache_shape(shape, "fp8").token * 2 == cache_shape(shape).token


def test_quantization_leaves_embeddings_alone() -> None:
    shape = known_shape("Qwen/Qwen3-8B")
    halves = weight_bytes(shape, "fp8", vision=False)
    assert (
        weight_bytes(shape, "bf16", vision=False) / 2
        < halves
        < weight_bytes(shape, "bf16", vision=False) * 0.6
    )


def test_a_config_file_is_read_like_a_known_model(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(dict(model("Qwen/Qwen3-14B").config)))
    assert count(read_shape(path)) == count(known_shape("Qwen/Qwen3-14B"))


def test_an_unknown_model_names_close_ones_and_the_way_out() -> None:
    with pytest.raises(UnknownNameError, match="did you mean Qwen/Qwen3-8B"):
        model("Qwen/Qwen3-8b")
    with pytest.raises(UnknownNameError, match="--model-config"):
        model("acme/thing")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ("[" * 100_000, "is not JSON"),
        ('{"model_type": "mamba"}', "model_type 'mamba' is not one that the planner can size"),
        ('{"text_config": [1]}', "text_config: is not an object"),
        ('{"model_type": 3}', "model_type is 3; the planner needs it as text"),
        ('{"model_type": "llama"}', "num_hidden_layers is None; the planner needs a whole number"),
        ('{"model_type": "llama", "num_hidden_layers": "many"}', "num_hidden_layers is 'many'"),
        (
            '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 8,'
            '"num_attention_heads": 0}',
            "num_attention_heads is 0; the planner needs 1 at least",
        ),
        (
            '{"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 8,'
            '"num_attention_heads": 2, "max_position_embeddings": 8, "quantization_config": {"quant_method": "magic"}}',
            "quant_method 'magic' is not one that the planner can size",
        ),
    ],
)
def test_a_wrong_config_is_told_in_one_line(tmp_path: Path, content: str, line: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content)
    with pytest.raises(ModelConfigError) as error:
        read_shape(path)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_config_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ModelConfigError, match="can't be read"):
        read_shape(tmp_path / "config.json")


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.text(max_size=4), max_size=3),
    st.dictionaries(st.text(max_size=4), st.integers(), max_size=2),
)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_a_spoilt_config_is_sized_or_refused_in_one_line(data: st.DataObject) -> None:
    known = data.draw(st.sampled_from(models_known()))
    config = copy.deepcopy(dict(known.config))
    for _ in range(data.draw(st.integers(1, 3))):
        inner = data.draw(
            st.sampled_from([part for part in config.values() if isinstance(part, dict)] or [config])
        )
        spoilt = data.draw(st.sampled_from([config, inner]))
        if spoilt:
            field = data.draw(st.sampled_from(sorted(spoilt)))
            if data.draw(st.booleans()):
                del spoilt[field]
            else:
                spoilt[field] = data.draw(JUNK)
    refusal = ""
    try:
        fit(Engine(shape_of(config, "config.json"), instance_type("p5.48xlarge")))
    except ModelConfigError as error:
        refusal = str(error)
    assert refusal == "" or refusal.startswith("config.json: ")
    assert "\n" not in refusal
