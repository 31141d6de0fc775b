"""Reads a stream of server-sent events, kept as pieces with their times of arrival, once it is over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvrelay.bench.outcome import Ending
from kvrelay.ops.openai_stream import Events, error_message

Piece = tuple[float, bytes]
"""When bytes arrived, in seconds, and the bytes."""
_TEXTS = ("content", "reasoning_content", "reasoning", "tool_calls")


@dataclass(slots=True)
class Transcript:
    """What a stream held. `token_times` has one time for each token, the same for tokens of one chunk."""

    token_times: list[float] = field(default_factory=list)
    done: float | None = None
    error: str = ""
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    exact: bool = False

    @property
    def ending(self) -> Ending:
        """How it ended, when nothing else is known of the connection."""
        if self.error:
            return Ending.ERROR
        return Ending.CUT if self.done is None else Ending.WHOLE


def read_stream(pieces: Sequence[Piece]) -> Transcript:
    """Tokens, usage and ending of a completion's or chat completion's stream. Raises nothing: what is broken is cut.

    Where the endpoint says in each chunk how many tokens it has made so far, tokens are counted so; else each chunk
    that holds text is one token.
    """
    found = Transcript()
    for at, event in _events(pieces):
        if event == b"[DONE]":
            found.done = at
            break
        try:
            chunk = json.loads(event)
        except (ValueError, RecursionError):
            found.error = "an event of the stream is not JSON"
            break
        if not isinstance(chunk, dict):
            found.error = "an event of the stream is not a JSON object"
            break
        if chunk.get("error"):
            found.error = error_message(event)
            break
        _take(chunk, at, found)
    if found.done is not None and not found.token_times and not found.error:
        found.error = "the stream ended without a token"
    return found


def _events(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Each event's data with the time of the piece that completed its line."""
    events = Events()
    for at, piece in pieces:
        for event in events.of(piece):
            yield at, event


def _take(chunk: dict[str, Any], at: float, found: Transcript) -> None:
    listed = chunk.get("choices")
    choices = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    usage = chunk.get("usage")
    before = len(found.token_times)
    if isinstance(usage, dict):
        found.prompt_tokens = _count(usage, "prompt_tokens") or found.prompt_tokens
        found.completion_tokens = _count(usage, "completion_tokens") or found.completion_tokens
        # A count that comes for the first time beside the last token is the usual total, not one of each chunk.
        found.exact = found.exact or (bool(choices) and "completion_tokens" in usage and not before)
    if found.exact:
        found.token_times += [at] * max(0, found.completion_tokens - before)
    elif any(_has_text(choice) for choice in choices):
        found.token_times.append(at)
    for choice in choices:
        if isinstance(reason := choice.get("finish_reason"), str):
            found.finish_reason = reason


def _count(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0


def _has_text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta")
    return bool(choice.get("text") or (isinstance(delta, dict) and any(delta.get(name) for name in _TEXTS)))
