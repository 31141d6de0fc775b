"""Queueing and rooflines: against textbook results, against measurements, and in the right direction."""

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kvrelay.data import instance_type
from kvrelay.data.reading import load
from kvrelay.errors import UserError
from kvrelay.planner.calibrated import H200, dynamo_ttft, engine_measured, rows, run, typical_error
from kvrelay.planner.engine import Engine
from kvrelay.planner.model_config import known_shape
from kvrelay.planner.ratio import Goals, compare, usual_goals
from kvrelay.planner.roofline import decode_step, prefill_seconds
from kvrelay.planner.serving import plain, prefill_decode
from kvrelay.planner.waiting import waiting
from kvrelay.planner.workload import Requests, Workload, parse_mix, spread

L4 = Engine(known_shape("Qwen/Qwen3.5-9B"), instance_type("g6.8xlarge"), vision=False)
CHAT = Workload((Requests(1.0, 512, 128),))


def test_one_server_waits_as_pollaczek_and_khinchine_say() -> None:
    services = [(2.0, 0.1), (0.5, 0.8)]
    load_ = 2.0 * 0.1 + 0.5 * 0.8
    mean = (2.0 * 0.1**2 + 0.5 * 0.8**2) / (2 * (1 - load_))
    wait = waiting(services, 1)
    assert wait.probability[0] == pytest.approx(1 - load_, rel=0.08)
    assert sum(wait.probability) == pytest.approx(1)
    assert wait.mean == pytest.approx(mean, rel=0.02)


def test_several_servers_wait_less_than_one_of_their_joint_speed() -> None:
    services = [(5.0, 0.3)]
    assert waiting(services, 2).mean < waiting([(5.0, 0.15)], 1).mean


def test_a_queue_that_grows_for_ever_says_so() -> None:
    overloaded = plain(L4, 1, CHAT.at(50))
    assert not overloaded.keeps_up
    assert math.isinf(overloaded.ttft[50])


def test_requests_alone_are_within_a_tenth_of_what_was_measured() -> None:
    alone = [row for row in rows() if row.what == "TTFT"]
    assert len(alone) == 8
    assert max(abs(row.error) for row in alone) < 0.1


def test_medians_under_load_are_near_what_was_measured() -> None:
    loaded = [row for row in rows() if row.what.endswith("p50")]
    assert typical_error(loaded) < 0.15
    below_saturation = [row for row in loaded if not row.cell.startswith("20 chat/s")]
    assert max(abs(row.error) for row in below_saturation) < 0.55


def test_all_figures_together_are_within_a_third_of_what_was_measured() -> None:
    assert typical_error(rows()) < 0.33


def measured_pairs() -> Iterator[tuple[dict[str, object], dict[str, object]]]:
    cells = load(H200)["loaded"]
    yield from zip(cells[::2], cells[1::2], strict=True)


@pytest.mark.parametrize(("apart", "together"), list(measured_pairs()))
def test_the_planner_and_the_measurement_agree_that_plain_replicas_answer_first(
    apart: dict[str, dict[int, float]], together: dict[str, dict[int, float]]
) -> None:
    assert apart["ttft"][50] > together["ttft"][50]
    assert run(apart).ttft[50] > run(together).ttft[50]


def test_decode_is_never_faster_than_reading_the_weights() -> None:
    weights = 16.68 * 2**30 - known_shape("Qwen/Qwen3.5-9B").vocabulary * 4096 * 2
    assert decode_step(L4, 1000)(1) > weights / 300e9


def test_prefill_grows_faster_than_its_length() -> None:
    engine = engine_measured()
    assert prefill_seconds(engine, 32768) > 2 * prefill_seconds(engine, 16384)


def test_fp8_speeds_up_prefill_only_where_the_gpu_has_it() -> None:
    shape = known_shape("Qwen/Qwen3-8B")
    for node, faster in (("g6.8xlarge", True), ("g5.8xlarge", False)):
        usual = Engine(shape, instance_type(node))
        seconds = prefill_seconds(replace(usual, stored="fp8"), 4096)
        assert (seconds < 0.9 * prefill_seconds(usual, 4096)) == faster


def test_decode_apart_stalls_less_than_plain_replicas_with_large_chunks() -> None:
    workload = Workload((Requests(0.3, 3000, 256),))
    apart, together = prefill_decode(L4, L4, 1, 1, "efa-staged", workload), plain(L4, 2, workload)
    assert apart.itl[99] < together.itl[99]


def test_a_9b_at_4k_is_better_served_by_plain_replicas_and_the_verdict_says_so() -> None:
    found = compare(
        L4,
        L4,
        2,
        spread(0.5, 2048, 256, 4096),
        "efa-staged",
        usual_goals(L4, spread(0.5, 2048, 256, 4096)),
        4.43,
    )
    assert not found.pays
    assert found.verdict.startswith("plain replicas win")
    assert [option.latency.label for option in found.options[1:]] == ["1P:1D"]


def test_prefill_decode_pays_where_long_prompts_meet_a_strict_itl() -> None:
    engine = Engine(
        known_shape("meta-llama/Llama-3.3-70B-Instruct"), instance_type("p5en.48xlarge"), tensor_parallel=8
    )
    engine = replace(engine, max_model_len=32768, block=256)
    workload = Workload((Requests(1.0, 12000, 300),))
    found = compare(engine, engine, 4, workload, "efa-gpudirect", Goals(3.0, 0.04), 260.0)
    assert found.pays
    assert "prefill/decode pays" in found.verdict


def test_goals_that_nothing_meets_are_told() -> None:
    found = compare(L4, L4, 2, spread(0.5, 2048, 256, 4096), "efa-staged", Goals(0.01, 0.01), 4.43)
    assert found.verdict.startswith("no option meets the goals")
    assert found.plain.usd_per_million_tokens is None


def test_a_mix_is_read_as_shares() -> None:
    workload = parse_mix("90%:512/128, 10%:12000/64", 2.0)
    assert workload.kinds == (Requests(1.8, 512, 128), Requests(0.2, 12000, 64))


@pytest.mark.parametrize(
    "text", ["", "512/128", "1:512", "0:512/128", "-1:1/1", "1:1/0", "a:1/1", "nan:1/1", "1:512/128,"]
)
def test_a_wrong_mix_is_told_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"--mix: .* is not share:prompt/answer"):
        parse_mix(text, 1.0)


def test_goals_grow_with_what_a_lone_request_takes() -> None:
    short, long = spread(1.0, 512, 64, 4096), spread(1.0, 16384, 64, 32768)
    assert usual_goals(engine_measured(), short) == Goals(2.0, 0.2)
    slow = replace(L4, max_model_len=32768)
    assert usual_goals(slow, long).ttft_p90 > 3 * prefill_seconds(slow, 16384)


def test_a_published_ttft_over_efa_is_within_a_factor_of_three() -> None:
    assert 1 / 3 <= dynamo_ttft("efa-gpudirect") <= 3
    assert dynamo_ttft("tcp") > 2 * dynamo_ttft("efa-gpudirect")
