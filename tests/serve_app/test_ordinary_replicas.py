"""The ordinary replicas of a prefill/decode app: the same engine without what only a hand-over needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvrelay.errors import InvalidFileError
from kvrelay.serve_app import Cpu, Loopback, ordinary_replicas, render
from kvrelay.settings import Role
from tests.serve_app.examples import SERVE_CONFIGS, engine, example, parsed, prefill_decode

PAIRS = sorted(
    path.stem for path in SERVE_CONFIGS.glob("*.yaml") if "build_pd_openai_app" in path.read_text()
)


@pytest.mark.parametrize("name", PAIRS)
def test_they_keep_the_decode_engine_and_move_no_cache(name: str) -> None:
    app = example(name)
    plain = ordinary_replicas(app, 2)
    (only,), decode = plain.engines, app.engine(Role.DECODE)
    assert not plain.is_prefill_decode
    assert only.kv_transfer is None
    assert only.arguments == {
        key: value for key, value in decode.arguments.items() if key != "kv_transfer_config"
    }
    assert (only.model_id, only.model_source) == (decode.model_id, decode.model_source)
    assert only.bundles == decode.bundles
    assert (only.replicas.least, only.replicas.most) == (2, 2)
    assert (
        plain.config["applications"][0]["args"]["ingress_deployment_config"]
        == (app.config["applications"][0]["args"]["ingress_deployment_config"])
    )


def test_those_of_the_reference_app_are_the_projects_own_plain_config() -> None:
    derived, written = ordinary_replicas(example("qwen3.5-9b"), 2), example("qwen3.5-9b-plain")

    def told(app: Any) -> Any:
        (only,) = app.engines
        return dict(only.arguments), only.replicas, only.model_source, only.get("deployment_config")

    assert told(derived) == told(written)


@pytest.mark.parametrize("name", PAIRS)
def test_nothing_of_the_pair_is_left_in_the_text(name: str) -> None:
    text = render(ordinary_replicas(example(name), 2), Loopback()).text
    for word in ("NIXL", "prewarm", "kv_transfer", "kv_role", "SSM_CONV", "29600", "prefill", "decode"):
        assert word not in text


def test_a_baseline_may_be_tuned_for_itself() -> None:
    plain = ordinary_replicas(example("qwen3-8b"), 2, {"max_num_batched_tokens": 2048})
    assert plain.engines[0].arguments["max_num_batched_tokens"] == 2048


def test_the_app_they_come_from_stays_as_it_was() -> None:
    app = example("qwen3-8b-autoscaled")
    before = render(app, Loopback()).text
    ordinary_replicas(app, 3)
    assert render(app, Loopback()).text == before


def test_they_are_rendered_for_a_cpu_like_any_other_app() -> None:
    target = replace(Cpu("./tiny"), replicas=None)
    (only,) = parsed(render(ordinary_replicas(example("qwen3.5-9b"), 2), target).config).engines
    assert (only.model_source, only.gpus_per_replica, only.replicas.most) == ("./tiny", 0, 2)


def test_ordinary_replicas_have_no_ordinary_replicas() -> None:
    with pytest.raises(InvalidFileError, match="makes ordinary replicas"):
        ordinary_replicas(example("qwen3.5-9b-plain"), 2)


def test_the_smallest_pair_gives_the_smallest_replicas() -> None:
    plain = ordinary_replicas(parsed(prefill_decode(engine(), engine())), 1)
    assert plain.model_id == "m"
