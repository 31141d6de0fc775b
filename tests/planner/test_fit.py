"""Fit: the reference deployment fits as the facts say; what does not fit is refused with what would."""

from dataclasses import replace
from typing import Any

import pytest

from kvrelay.data import instance_type
from kvrelay.planner.alternatives import alternatives, tensor_parallel_sizes
from kvrelay.planner.engine import Engine
from kvrelay.planner.fit import GIB, MIB, fit
from kvrelay.planner.model_config import known_shape


def engine(id: str = "Qwen/Qwen3.5-9B", node: str = "g6.8xlarge", **settings: Any) -> Engine:
    return Engine(known_shape(id), instance_type(node), **settings)


@pytest.mark.parametrize(("vision", "weights"), [(False, 16.68), (True, 16.68 + 0.84)])
def test_the_reference_fits_one_l4_with_the_vision_tower_on_or_off(vision: bool, weights: float) -> None:
    found = fit(engine(vision=vision))
    assert found.fits
    assert found.weights / GIB == pytest.approx(weights, rel=0.03)
    assert found.sequence / MIB == pytest.approx(181.5, rel=0.03)


def test_the_reference_leaves_what_the_facts_say_before_activations() -> None:
    found = fit(engine(vision=False))
    assert 3.2 <= found.before_activations / GIB <= 3.6
    assert 0.7 <= found.activations / GIB <= 1.3


def test_one_more_sequence_than_fits_does_not_fit() -> None:
    most = fit(engine()).sequences
    assert fit(engine(concurrency=most)).fits
    assert not fit(engine(concurrency=most + 1)).fits


def test_the_longest_length_is_the_longest_that_fits() -> None:
    wanted = engine(vision=True, concurrency=4)
    longest = fit(wanted).longest
    assert fit(replace(wanted, max_model_len=longest)).fits
    assert not fit(replace(wanted, max_model_len=longest + wanted.cache.block_tokens)).fits


def test_no_length_is_longer_than_the_model_was_made_for() -> None:
    assert fit(engine("Qwen/Qwen3-0.6B", "p5en.48xlarge")).longest == 40960


def test_a_70b_in_bf16_on_one_l4_is_refused_with_the_nearest_that_works() -> None:
    wanted = engine("meta-llama/Llama-3.3-70B-Instruct")
    found = fit(wanted)
    assert not found.fits
    assert found.sequences == 0
    nearest = alternatives(wanted, "us-east-2")
    assert nearest
    first = nearest[0]
    assert first.fit.fits
    assert first.engine.instance.efa
    assert first.usd_per_hour is not None
    assert first.changes == ("instance_type: g6e.12xlarge", "tensor_parallel_size: 4")


@pytest.mark.parametrize(
    ("id", "settings"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", {}),
        ("Qwen/Qwen3.5-9B", {"concurrency": 32}),
        ("Qwen/Qwen3-8B", {"max_model_len": 40960}),
        ("Qwen/Qwen3-32B", {"concurrency": 16, "max_model_len": 16384}),
    ],
)
def test_every_alternative_fits_and_each_further_one_is_cheaper(id: str, settings: dict[str, Any]) -> None:
    wanted = engine(id, **settings)
    found = alternatives(wanted, "us-east-2")
    assert found
    for each in found:
        assert fit(each.engine).fits
        assert each.changes
    costs = [each.usd_per_hour or 0.0 for each in found]
    assert costs == sorted(costs, reverse=True)


def test_precision_is_changed_before_anything_is_given_up() -> None:
    nearest = alternatives(engine(concurrency=32), "us-east-2")[0]
    assert nearest.changes == ("weights in fp8",)
    assert nearest.fit.sequences >= 32


def test_without_prices_the_types_are_still_named() -> None:
    assert alternatives(engine("meta-llama/Llama-3.3-70B-Instruct"), "mars-north-1")[0].usd_per_hour is None


def test_heads_are_split_evenly() -> None:
    phi = known_shape("microsoft/phi-4")  # 40 heads, 10 of them cached
    assert tensor_parallel_sizes(phi, 8) == [1, 2]
    assert tensor_parallel_sizes(known_shape("meta-llama/Llama-3.1-8B-Instruct"), 4) == [1, 2, 4]


def test_an_eager_engine_needs_no_graphs() -> None:
    assert fit(engine(eager=True)).cache - fit(engine()).cache == fit(engine()).graphs > 0
