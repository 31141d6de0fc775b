"""The load against a real HTTP endpoint with known delays and faults."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvrelay.bench import Ending, Goals, Limits, Request, RequestSet, Run, Target, drive, figures
from kvrelay.bench.prompts import Api
from tests.bench.streaming_server import Behaviour, serving

SERVER = Path(__file__).with_name("streaming_server.py")


def every(seconds: float, count: int, answer: int = 8, prompt: int = 16) -> RequestSet:
    """Requests that come evenly."""
    requests = tuple(Request(index * seconds, prompt, answer, "k") for index in range(count))
    return RequestSet("test", requests, seconds * count)


def load(url: str, asked: RequestSet, *, api: Api = Api.COMPLETIONS, limit: float = 30.0) -> Run:
    return asyncio.run(drive(Target("test", url, "tiny", api), asked, Limits(limit)))


@pytest.mark.parametrize("api", list(Api))
def test_ttft_and_gaps_are_the_endpoints_own(api: Api) -> None:
    with serving(Behaviour(first_token=0.3, gap=0.05)) as url:
        run = load(url, every(0.1, 5), api=api)
    for outcome in run.outcomes:
        assert outcome.ending is Ending.WHOLE
        # Sleeps never end early; how late they end is the machine's business.
        assert 0.29 < outcome.ttft_from_sending <= outcome.ttft
        assert len(outcome.gaps) == 7
        assert sum(outcome.gaps) >= 7 * 0.049
        assert (outcome.prompt_tokens, outcome.completion_tokens, outcome.exact) == (16, 8, True)
        assert outcome.finish_reason == "length"


def test_a_slower_endpoint_is_measured_slower_where_it_is_slower() -> None:
    with (
        serving(Behaviour(first_token=0.4, gap=0.02)) as late,
        serving(Behaviour(first_token=0.05, gap=0.1)) as slow,
    ):
        first, second = load(late, every(0.05, 6)), load(slow, every(0.05, 6))
    goals = Goals(1.0, 1.0)
    one, two = figures(first.outcomes, 1.0, goals), figures(second.outcomes, 1.0, goals)
    assert one.ttft
    assert one.itl
    assert two.ttft
    assert two.itl
    assert one.ttft.p50 > 2 * two.ttft.p50
    assert two.itl.p50 > 2 * one.itl.p50


def test_a_pause_within_an_answer_is_one_stall() -> None:
    with serving(Behaviour(gap=0.005, stall_at=4, stall=1.5)) as url:
        (outcome,) = load(url, every(0.1, 1)).outcomes
    assert outcome.stalls(1.0) == 1
    assert max(outcome.gaps) == outcome.gaps[3]


def test_a_request_is_sent_at_its_time_however_long_the_ones_before_wait() -> None:
    behaviour = Behaviour(first_token=0.3, one_at_a_time=True)
    with serving(behaviour) as url:
        run = load(url, every(0.05, 10))
    # Answers come one after another, 0.3 s each; requests came all within half a second.
    first, *_, last = sorted(behaviour.arrivals)
    assert last - first < 0.5 * run.elapsed
    waits = [outcome.ttft for outcome in run.outcomes]
    assert waits[-1] > 3 * waits[0]
    assert max(outcome.late for outcome in run.outcomes) < waits[-1] / 2


@pytest.mark.parametrize(
    ("fault", "ending", "error"),
    [
        ("status", Ending.ERROR, "500: the engine died"),
        ("event", Ending.ERROR, "decode was lost"),
        ("nonsense", Ending.ERROR, "an event of the stream is not JSON"),
        ("cut", Ending.CUT, "the stream ended without [DONE]"),
        ("reset", Ending.CUT, ""),
        ("hang", Ending.TIME_LIMIT, "no end within 2 s"),
    ],
)
def test_a_fault_is_told_apart_and_the_others_come_whole(fault: str, ending: Ending, error: str) -> None:
    with serving(Behaviour(fault=fault, fault_every=3)) as url:
        run = load(url, every(0.1, 6), limit=2.0)
    broken = [outcome for outcome in run.outcomes if not outcome.whole]
    assert [outcome.ending for outcome in broken] == [ending] * 2
    for outcome in broken:
        assert error in outcome.error
        assert outcome.error
        # What came before the fault is kept: half the answer.
        assert outcome.tokens == (0 if fault == "status" else 4)


def test_an_endpoint_that_is_not_there_refuses_every_request() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        run = load(f"http://127.0.0.1:{unused.getsockname()[1]}", every(0.01, 3))
    assert [outcome.ending for outcome in run.outcomes] == [Ending.REFUSED] * 3
    assert {outcome.error for outcome in run.outcomes} == {"Connection refused"}


def test_an_endpoint_that_is_no_http_server_refuses_too() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        run = load(f"http://127.0.0.1:{silent.getsockname()[1]}", every(0.01, 2), limit=0.5)
    assert [outcome.ending for outcome in run.outcomes] == [Ending.TIME_LIMIT] * 2


def test_tokens_are_counted_by_chunks_where_the_endpoint_does_not_count() -> None:
    with serving(Behaviour(counts=False)) as url:
        (outcome,) = load(url, every(0.1, 1)).outcomes
    assert (outcome.tokens, len(outcome.gaps), outcome.exact) == (8, 7, False)


def test_two_hundred_streams_at_once_come_whole_unmixed_and_cheaply() -> None:
    # Each prompt has a length of its own, and the endpoint counts it back.
    requests = tuple(Request(index * 0.002, index + 1, 20, "k") for index in range(200))
    process = subprocess.Popen(
        [sys.executable, SERVER, "1.0", "0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    try:
        run = load(
            f"http://127.0.0.1:{int(process.stdout.readline())}", RequestSet("many", requests, 0.4), limit=120
        )
    finally:
        process.stdin.close()
        process.wait(30)
    assert [outcome.prompt_tokens for outcome in run.outcomes] == list(range(1, 201))
    assert all(outcome.whole and outcome.completion_tokens == 20 for outcome in run.outcomes)
    assert max(outcome.sent for outcome in run.outcomes) < min(outcome.ended for outcome in run.outcomes)
    # Of processor time, which others here do not change much, 0.1 ms a token were seen, sending included.
    assert run.client_cpu / (200 * 20) < 0.0005
