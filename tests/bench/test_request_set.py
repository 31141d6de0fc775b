"""Which requests are made: the same from the same seed, of the lengths and at the rate asked for."""

from __future__ import annotations

import json
import statistics
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from kvrelay.bench.lengths import Length
from kvrelay.bench.prompts import Api, bodies
from kvrelay.bench.request_set import (
    Request,
    RequestSet,
    parse_mix,
    poisson_requests,
    warmup_requests,
)
from kvrelay.bench.trace import read_trace
from kvrelay.errors import UserError

MIX = parse_mix("chat=90%:512~0.5/128,long=10%:8000..16000/64")


def test_the_same_seed_asks_the_same_to_the_last_byte() -> None:
    first, second = (poisson_requests(MIX, 4, 30, seed=3) for _ in range(2))
    assert first == second
    assert first.fingerprint == second.fingerprint
    assert list(bodies(first, "m", Api.COMPLETIONS)) == list(bodies(second, "m", Api.COMPLETIONS))


def test_a_seed_gives_the_same_requests_on_every_machine() -> None:
    asked = poisson_requests(MIX, 4, 30, seed=3)
    assert (len(asked.requests), asked.fingerprint) == (122, "5c95c58217e4403c")


@pytest.mark.parametrize(("rate", "seed", "round_"), [(4.0, 4, 0), (4.0, 3, 1), (5.0, 3, 0)])
def test_another_seed_round_or_rate_asks_something_else(rate: float, seed: int, round_: int) -> None:
    usual, other = poisson_requests(MIX, 4.0, 30, 3), poisson_requests(MIX, rate, 30, seed, round_)
    assert usual.fingerprint != other.fingerprint
    assert not set(bodies(usual, "m", Api.COMPLETIONS)) & set(bodies(other, "m", Api.COMPLETIONS))


def test_another_rate_keeps_the_lengths() -> None:
    slow, fast = (poisson_requests(MIX, rate, 30, seed=3).requests for rate in (2, 4))
    assert [request.prompt_tokens for request in slow] == [
        request.prompt_tokens for request in fast[: len(slow)]
    ]
    assert slow[0].at == pytest.approx(2 * fast[0].at, abs=1e-5)


def test_arrivals_are_a_poisson_process_of_the_rate_asked_for() -> None:
    times = [request.at for request in poisson_requests(MIX, 50, 200, seed=1).requests]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) == pytest.approx(10_000, rel=0.05)
    # An exponential distribution's deviation is its mean; its share above the mean is 1/e.
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.05)
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.02)


def test_lengths_and_shares_are_as_the_mix_says() -> None:
    requests = poisson_requests(MIX, 50, 200, seed=1).requests
    chats = [request.prompt_tokens for request in requests if request.kind == "chat"]
    longs = [request.prompt_tokens for request in requests if request.kind == "long"]
    assert len(longs) / len(requests) == pytest.approx(0.1, abs=0.01)
    assert statistics.mean(chats) == pytest.approx(512, rel=0.03)
    assert statistics.stdev(chats) == pytest.approx(256, rel=0.1)
    assert min(longs) >= 8000
    assert max(longs) <= 16000
    assert statistics.mean(longs) == pytest.approx(12000, rel=0.03)


def test_a_range_reaches_both_its_ends() -> None:
    source = Random(1)
    assert {Length.parse("3..5").draw(source) for _ in range(200)} == {3, 4, 5}


def test_completions_send_prompts_of_exactly_the_length_asked_for() -> None:
    asked = poisson_requests(MIX, 2, 20, seed=1)
    for request, body in zip(asked.requests, bodies(asked, "m", Api.COMPLETIONS, salt="s"), strict=True):
        sent = json.loads(body)
        assert len(sent["prompt"]) == request.prompt_tokens
        assert set(sent["prompt"]) <= set(range(60, 260))
        assert (sent["max_tokens"], sent["ignore_eos"], sent["cache_salt"]) == (
            request.answer_tokens,
            True,
            "s",
        )


def test_only_openai_leaves_out_what_openai_does_not_know() -> None:
    asked = poisson_requests(MIX, 2, 5, seed=1)
    sent = json.loads(next(bodies(asked, "m", Api.CHAT, extensions=False, salt="s")))
    assert set(sent) == {"model", "temperature", "stream", "stream_options", "max_tokens", "messages"}
    assert sent["stream_options"] == {"include_usage": True}
    assert len(sent["messages"][0]["content"].split()) == asked.requests[0].prompt_tokens


def test_no_two_prompts_begin_alike_and_warming_up_uses_none_of_them() -> None:
    asked = poisson_requests(MIX, 5, 20, seed=1)
    warmup = warmup_requests(asked, 4)
    made = [*bodies(asked, "m", Api.COMPLETIONS), *bodies(warmup, "m", Api.COMPLETIONS)]
    assert len({tuple(json.loads(body)["prompt"][:16]) for body in made}) == len(made)
    assert [each.prompt_tokens for each in warmup.requests] == [
        each.prompt_tokens for each in asked.requests[:4]
    ]


WRONG_MIXES = (
    *("", "512", "512/", "/128", "0/1", "1/0", "a/b", "-1/5", "1.5/2", "9999999/1", "1/1/1", "٣/1"),
    *("2..1/5", "512~/5", "512~11/5", "0%:1/1", "x%:1/1", "nan%:1/1", "inf%:1/1"),
    *("=1/1", "1/1,", "a=1/1,a=2/2", "1/1,1/1"),
)


@pytest.mark.parametrize("mix", WRONG_MIXES)
def test_a_wrong_mix_is_one_line(mix: str) -> None:
    with pytest.raises(UserError, match="--mix") as caught:
        parse_mix(mix)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("rate", "seconds"), [(0.001, 1.0), (1e6, 1e6)])
def test_a_load_of_nothing_or_of_far_too_much_is_one_line(rate: float, seconds: float) -> None:
    with pytest.raises(UserError, match="--seconds"):
        poisson_requests(MIX, rate, seconds, seed=1)


def trace(folder: Path, *lines: str) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_trace_is_replayed_at_its_own_times_from_its_first(tmp_path: Path) -> None:
    path = trace(
        tmp_path,
        '{"at": 12.5, "prompt": "Why?", "answer_tokens": 8, "kind": "question"}',
        "",
        '{"at": 11.0, "prompt_tokens": 30, "answer_tokens": 4}',
    )
    asked = read_trace(path)
    assert asked.requests == (Request(0.0, 30, 4, "trace"), Request(1.5, 0, 8, "question", "Why?"))
    assert (asked.seconds, asked.rate) == (3.0, None)
    assert json.loads(list(bodies(asked, "m", Api.COMPLETIONS))[1])["prompt"] == "Why?"


def test_mooncakes_traces_are_read_as_they_are(tmp_path: Path) -> None:
    path = trace(
        tmp_path, '{"timestamp": 3000, "input_length": 6755, "output_length": 500, "hash_ids": [0, 1]}'
    )
    assert read_trace(path).requests == (Request(0.0, 6755, 500, "trace"),)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "holds 0 requests"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("7", "is not a JSON object"),
        ('{"at": 1, "prompt_tokens": 5}', "answer_tokens is missing"),
        ('{"at": 1, "answer_tokens": 5}', "prompt_tokens is missing"),
        ('{"prompt_tokens": 1, "answer_tokens": 5}', "at is missing"),
        ('{"at": -1, "prompt_tokens": 1, "answer_tokens": 5}', "at is -1"),
        ('{"at": NaN, "prompt_tokens": 1, "answer_tokens": 5}', "at is nan"),
        ('{"at": 1e999, "prompt_tokens": 1, "answer_tokens": 5}', "at is inf"),
        ('{"at": true, "prompt_tokens": 1, "answer_tokens": 5}', "at is True"),
        ('{"at": 1, "prompt_tokens": 0, "answer_tokens": 5}', "prompt_tokens is 0"),
        ('{"at": 1, "prompt_tokens": 1.5, "answer_tokens": 5}', "prompt_tokens is 1.5"),
        ('{"at": 1, "prompt_tokens": 1, "answer_tokens": "5"}', "answer_tokens is '5'"),
        ('{"at": 1, "prompt": 7, "answer_tokens": 5}', "must be text"),
    ],
)
def test_a_wrong_trace_is_one_line_with_its_place(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(UserError, match="--trace") as caught:
        read_trace(trace(tmp_path, line))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        read_trace(tmp_path / "none.jsonl")


def test_a_request_set_of_the_same_shape_with_other_prompts_is_told_apart() -> None:
    requests = (Request(0.0, 5, 5, "k"),)
    assert RequestSet("a", requests, 1.0).fingerprint != RequestSet("b", requests, 1.0).fingerprint
