"""What a recorded stream says, with times that the test made up."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrelay.bench.outcome import Ending
from kvrelay.bench.transcript import read_stream
from kvrelay.ops.openai_stream import error_message


def event(text: str | None = None, **more: Any) -> bytes:
    choices = [] if text is None else [{"text": text}]
    return f"data: {json.dumps({'choices': choices, **more})}\n\n".encode()


def counted(tokens: int, text: str = "x") -> bytes:
    return event(text, usage={"prompt_tokens": 7, "completion_tokens": tokens})


USAGE = event(None, usage={"prompt_tokens": 7, "completion_tokens": 2})
DONE = b"data: [DONE]\n\n"


def test_each_chunk_with_text_is_a_token_where_the_endpoint_does_not_count() -> None:
    found = read_stream([(1.0, event("a")), (1.5, event("")), (2.0, event("b")), (2.1, USAGE), (2.2, DONE)])
    assert found.token_times == [1.0, 2.0]
    assert (found.prompt_tokens, found.completion_tokens, found.exact) == (7, 2, False)
    assert (found.ending, found.done) == (Ending.WHOLE, 2.2)


def test_the_endpoints_own_counts_say_how_many_tokens_a_chunk_brought() -> None:
    found = read_stream(
        [(1.0, counted(1)), (2.0, counted(2, "")), (3.0, counted(5)), (3.5, counted(5, "")), (4.0, DONE)]
    )
    assert found.token_times == [1.0, 2.0, 3.0, 3.0, 3.0]
    assert found.exact


def test_a_total_that_comes_with_the_last_chunk_is_no_count_of_chunks() -> None:
    found = read_stream([(1.0, event("a")), (2.0, event("b")), (3.0, counted(9)), (3.5, DONE)])
    assert found.token_times == [1.0, 2.0, 3.0]
    assert (found.completion_tokens, found.exact) == (9, False)


def test_a_chats_opening_is_no_token() -> None:
    opening = {"delta": {"role": "assistant", "content": ""}}
    body = f"data: {json.dumps({'choices': [opening], 'usage': {'prompt_tokens': 7, 'completion_tokens': 0}})}\n\n"
    found = read_stream([(1.0, body.encode()), (2.0, counted(1)), (3.0, DONE)])
    assert found.token_times == [2.0]


@pytest.mark.parametrize("name", ["content", "reasoning_content", "tool_calls"])
def test_reasoning_and_tool_calls_are_output_too(name: str) -> None:
    chunk = {"choices": [{"delta": {name: "x"}}]}
    assert read_stream([(1.0, f"data: {json.dumps(chunk)}\n\n".encode())]).token_times == [1.0]


@settings(deadline=None)
@given(st.lists(st.integers(1, 400), max_size=20))
def test_how_the_network_cuts_the_stream_changes_no_token(cuts: list[int]) -> None:
    whole = b"".join([b": comment\r\n", counted(1), counted(2).replace(b"\n", b"\r\n"), USAGE, DONE])
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    pieces = [(float(end), whole[begin:end]) for begin, end in pairwise(places)]
    found = read_stream(pieces)
    assert len(found.token_times) == 2
    assert found.ending is Ending.WHOLE
    # A token is there when its line is complete, and not before.
    first_line = whole.index(counted(1)) + len(counted(1)) - 1
    assert found.token_times[0] == min(place for place in places if place >= first_line)


@pytest.mark.parametrize(
    ("pieces", "ending", "error"),
    [
        ([], Ending.CUT, ""),
        ([(1.0, counted(1))], Ending.CUT, ""),
        ([(1.0, b"data: [DON")], Ending.CUT, ""),
        (
            [(1.0, counted(1)), (2.0, b'data: {"error": {"message": "lost\\nit"}}\n\n')],
            Ending.ERROR,
            "lost it",
        ),
        ([(1.0, counted(1)), (2.0, b"data: {\n\n")], Ending.ERROR, "an event of the stream is not JSON"),
        ([(1.0, b"data: 5\n\n")], Ending.ERROR, "an event of the stream is not a JSON object"),
        ([(1.0, DONE)], Ending.ERROR, "the stream ended without a token"),
        ([(1.0, counted(1)), (2.0, DONE), (3.0, b"data: {\n\n")], Ending.WHOLE, ""),
    ],
)
def test_a_stream_ends_whole_cut_or_with_what_the_endpoint_said(
    pieces: list[tuple[float, bytes]], ending: Ending, error: str
) -> None:
    found = read_stream(pieces)
    assert (found.ending, found.error) == (ending, error)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60)))
def test_no_stream_raises(pieces: list[bytes]) -> None:
    read_stream([(0.0, piece) for piece in pieces])


_KEYS = st.sampled_from(["choices", "usage", "delta", "text", "completion_tokens", "finish_reason", "error"])
_LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
_JSON = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(_JSON)
def test_no_event_raises(value: Any) -> None:
    read_stream([(0.0, f"data: {json.dumps(value)}\n\n".encode())])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "too long", "code": 400}}', "too long"),
        (b'{"error": "no such model"}', "no such model"),
        (b"Internal\n Server Error", "Internal Server Error"),
        (b"", "no message"),
        (b"\xff" * 300, "\ufffd" * 200),
    ],
)
def test_an_error_is_told_in_a_line(body: bytes, message: str) -> None:
    assert error_message(body) == message
