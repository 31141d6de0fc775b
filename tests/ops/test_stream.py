"""Reading one streamed OpenAI request: its text and how it ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrelay.ops.stream import Ending, Streamed, stream


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def text_event(text: str) -> bytes:
    return event({"choices": [{"text": text, "finish_reason": None}]})


def read(pieces: list[bytes], status: int = 200, broken: bool = False) -> Streamed:
    """What stream() makes of a response whose body comes in these pieces, and then breaks if `broken`."""

    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
        if broken:
            raise httpx.RemoteProtocolError("peer closed connection")

    async def asked() -> Streamed:
        transport = httpx.MockTransport(lambda _: httpx.Response(status, content=body()))
        async with httpx.AsyncClient(transport=transport, base_url="http://model") as client:
            return await stream(client, "/v1/completions", {"model": "m"})

    return asyncio.run(asked())


@given(text=st.text(min_size=1), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_any_text_cut_anywhere_comes_whole(text: str, cuts: list[int]) -> None:
    body = text_event(text) + b"data: [DONE]\n\n"
    edges = [0, *sorted(cut % len(body) for cut in cuts), len(body)]
    result = read([body[start:end] for start, end in pairwise(edges)])
    assert (result.text, result.ending) == (text, Ending.WHOLE)


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85"])
def test_a_separator_within_the_text_ends_no_line(separator: str) -> None:
    assert read([text_event(f"a{separator}b"), b"data: [DONE]\n\n"]).text == f"a{separator}b"


def test_usage_and_reason_are_kept() -> None:
    last = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    end = event({"choices": [{"text": "b", "finish_reason": "length"}]})
    result = read([text_event("a"), end, last, b"data: [DONE]\n\n"])
    assert (result.text, result.finish_reason) == ("ab", "length")
    assert (result.prompt_tokens, result.completion_tokens) == (7, 2)
    assert len(result.chunk_times) == 2


@pytest.mark.parametrize("broken", [False, True])
def test_a_stream_without_its_end_is_cut(broken: bool) -> None:
    result = read([text_event("a")], broken=broken)
    assert (result.text, result.ending) == ("a", Ending.CUT)


def test_an_error_within_the_stream_is_said() -> None:
    result = read([text_event("a"), event({"error": {"message": "the engine died"}})])
    assert (result.ending, result.error) == (Ending.ERROR, "the engine died")


@pytest.mark.parametrize(
    ("body", "said"),
    [(b'{"error": {"message": "no such model"}}', "no such model"), (b"bad gateway", "bad gateway")],
)
def test_a_refusal_is_said(body: bytes, said: str) -> None:
    result = read([body], status=502)
    assert (result.status, result.ending, result.error) == (502, Ending.ERROR, said)


@pytest.mark.parametrize(
    "event_", [b"data: {broken\n\n", b"data: []\n\n", b"data: 5\n\n", b'data: {"choices": 5}\n\n']
)
def test_an_event_of_another_form_cuts_the_stream_in_words(event_: bytes) -> None:
    result = read([text_event("a"), event_, text_event("b"), b"data: [DONE]\n\n"])
    assert (result.text, result.ending) == ("a", Ending.CUT)
    assert "OpenAI's form" in result.error
