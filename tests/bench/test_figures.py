"""Percentiles, goodput and the verdict, on outcomes that the tests made up."""

from __future__ import annotations

import dataclasses
import math
import statistics

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrelay.bench.cells import Cell, turns
from kvrelay.bench.drive import Target
from kvrelay.bench.figures import Goals, Spread, figures, percentile
from kvrelay.bench.outcome import Ending, Outcome
from kvrelay.bench.request_set import Request, RequestSet
from kvrelay.bench.verdict import sign_test, verdicts

GOALS = Goals(ttft=1.0, itl=0.1)


def outcome(
    at: float = 0.0,
    *,
    ttft: float = 0.5,
    gaps: tuple[float, ...] = (0.05,) * 9,
    late: float = 0.0,
    ending: Ending = Ending.WHOLE,
    kind: str = "k",
) -> Outcome:
    first = at + ttft
    return Outcome(
        request=Request(at, 16, len(gaps) + 1, kind),
        sent=at + late,
        ended=first + sum(gaps),
        ending=ending,
        first_token=first,
        gaps_us=tuple(round(gap * 1e6) for gap in gaps),
        prompt_tokens=16,
        completion_tokens=len(gaps) + 1,
        exact=True,
        status=200,
        error="" if ending is Ending.WHOLE else ending.value,
    )


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200))
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    for percent in (1, 50, 90, 99):
        assert percentile(values, percent) == pytest.approx(cuts[percent - 1], rel=1e-9, abs=1e-9)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(
        float(numpy.percentile(values, percent)), rel=1e-9, abs=1e-9
    )


def test_a_spread_of_one_value_is_that_value_and_of_none_is_none() -> None:
    assert Spread.of([3.0]) == Spread(1, 3.0, 3.0, 3.0, 3.0, 3.0)
    assert Spread.of([]) is None


def test_a_late_client_hides_nothing() -> None:
    late = outcome(at=1.0, ttft=1.2, late=0.9)
    assert late.ttft == pytest.approx(1.2)
    assert late.ttft_from_sending == pytest.approx(0.3)
    assert not GOALS.met(late)


def test_goodput_counts_whole_answers_that_keep_both_goals_for_each_second_of_load() -> None:
    outcomes = [
        outcome(0.0),
        outcome(1.0, ttft=1.0),
        outcome(2.0, ttft=1.01),
        outcome(3.0, gaps=(0.05,) * 8 + (0.3,)),
        outcome(4.0, gaps=()),
        outcome(5.0, ending=Ending.CUT),
    ]
    found = figures(outcomes, 10.0, GOALS)
    assert (found.requests, found.whole, found.within_goals) == (6, 5, 3)
    assert found.goodput == pytest.approx(0.3)
    assert found.within_share == pytest.approx(0.5)
    assert (found.failed, found.errors) == ({"cut": 1}, {"cut": 1})


def test_one_long_gap_in_a_long_answer_is_within_the_goal_for_99_percent() -> None:
    assert GOALS.met(outcome(gaps=(0.05,) * 199 + (3.0,)))
    assert not GOALS.met(outcome(gaps=(0.05,) * 190 + (3.0,) * 10))


def test_stalls_are_gaps_of_over_100_ms() -> None:
    found = figures([outcome(gaps=(0.1, 0.1001, 0.5)), outcome(gaps=(0.02,))], 1.0, GOALS)
    assert (found.stalls, found.stalled, found.stalled_share) == (2, 1, 0.5)


def test_token_rates_and_latencies_are_of_what_arrived() -> None:
    outcomes = [outcome(0.0, ttft=0.5, gaps=(0.1, 0.2)), outcome(1.0, ttft=1.5, gaps=())]
    found = figures(outcomes, 2.0, GOALS)
    assert (found.output_tokens, found.prompt_tokens) == (4, 32)
    assert found.output_tokens_per_s == pytest.approx(4 / 2.5)
    assert found.tpot
    assert found.tpot.mean == pytest.approx(0.15)
    assert found.itl
    assert found.itl.count == 2
    assert found.end_to_end
    assert found.end_to_end.most == pytest.approx(1.5)


def test_figures_of_nothing_are_empty() -> None:
    found = figures([], 1.0, GOALS)
    assert (found.requests, found.goodput, found.ttft, found.exact) == (0, 0.0, None, False)


def cell(endpoint: str, outcomes: list[Outcome], asked: str = "same", rate: float = 4.0) -> Cell:
    return Cell(endpoint, rate, 0, asked, 10.0, 12.0, 0.1, tuple(outcomes))


GOOD, BAD = outcome(), outcome(ttft=5.0)


@pytest.mark.parametrize(
    ("mine", "theirs", "pays"),
    [
        ([GOOD] * 20, [BAD] * 8 + [GOOD] * 12, True),
        ([BAD] * 8 + [GOOD] * 12, [GOOD] * 20, False),
        ([GOOD] * 20, [GOOD] * 20, None),
        ([GOOD] * 18 + [BAD] * 2, [GOOD] * 20, None),
    ],
)
def test_prefill_decode_pays_when_clearly_more_requests_keep_the_goals(
    mine: list[Outcome], theirs: list[Outcome], pays: bool | None
) -> None:
    (verdict,) = verdicts([cell("replicas", theirs), cell("pd", mine)], GOALS)
    assert (verdict.subject, verdict.other, verdict.pays) == ("pd", "replicas", pays)
    words = {True: "pd pays at 4/s", False: "pd does not pay", None: "no clear difference"}
    assert words[pays] in verdict.text
    assert "\n" not in verdict.text


@pytest.mark.parametrize(("both", "advice"), [(GOOD, "a higher rate"), (BAD, "a lower rate")])
def test_goals_that_tell_nothing_apart_are_said_to(both: Outcome, advice: str) -> None:
    (verdict,) = verdicts([cell("pd", [both] * 9), cell("replicas", [both] * 9)], GOALS)
    assert advice in verdict.text


def test_only_requests_that_both_were_asked_are_compared() -> None:
    cells = [cell("pd", [GOOD] * 9, "a"), cell("pd", [BAD] * 9, "b"), cell("replicas", [GOOD] * 9, "a")]
    (verdict,) = verdicts(cells, GOALS)
    assert (verdict.requests, verdict.gained, verdict.lost) == (9, 0, 0)
    assert verdict.subject_figures.within_share == 1.0
    assert verdicts([cell("pd", [GOOD], "a"), cell("replicas", [GOOD], "b")], GOALS) == []
    assert verdicts([cell("pd", [GOOD])], GOALS) == []
    assert verdicts([], GOALS) == []


def test_each_rate_and_each_other_endpoint_has_its_verdict() -> None:
    cells = [cell(name, [GOOD], str(rate), rate) for rate in (2.0, 4.0) for name in ("one", "two", "three")]
    assert [(each.subject, each.other, each.rate) for each in verdicts(cells, GOALS)] == [
        ("one", "two", 2.0),
        ("one", "three", 2.0),
        ("one", "two", 4.0),
        ("one", "three", 4.0),
    ]


def test_the_sign_test_is_the_binomial_one() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(3, 3) == 1.0
    assert sign_test(5, 0) == sign_test(0, 5) == pytest.approx(2 / 32)
    assert sign_test(9, 1) == pytest.approx(2 * (1 + 10) / 1024)
    assert math.isfinite(sign_test(5000, 4000))


def test_rounds_go_through_the_endpoints_forwards_and_backwards() -> None:
    sets = [[RequestSet(f"{round_}", (), 1.0)] for round_ in range(3)]
    targets = [Target(name, "http://x", "m") for name in ("pd", "replicas")]
    order = [(turn.round, turn.target.name, turn.asked.label) for turn in turns(targets, sets)]
    assert order == [
        (0, "pd", "0"),
        (0, "replicas", "0"),
        (1, "replicas", "1"),
        (1, "pd", "1"),
        (2, "pd", "2"),
        (2, "replicas", "2"),
    ]


def test_an_outcome_without_a_token_has_no_ttft_and_no_tpot() -> None:
    none = dataclasses.replace(
        outcome(ending=Ending.ERROR), first_token=None, gaps_us=(), completion_tokens=0
    )
    assert (none.ttft, none.tpot, none.tokens) == (math.inf, None, 0)
