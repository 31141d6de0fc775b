"""One streamed OpenAI request: its text, the time of each chunk, and how it ended."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import httpx

from kvrelay.ops.openai_stream import Events, error_message


class Ending(StrEnum):
    """How a stream ended."""

    WHOLE = "whole"
    """`[DONE]` came."""
    ERROR = "error"
    """The server said what went wrong, before or within the stream."""
    CUT = "cut"
    """The connection ended without either."""


@dataclass(slots=True)
class Streamed:
    """What came of one request. Times are in seconds, chunks' ones since the request was sent."""

    text: str = ""
    chunk_times: list[float] = field(default_factory=list)
    ending: Ending = Ending.CUT
    finish_reason: str | None = None
    status: int = 0
    error: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0


async def stream(
    client: httpx.AsyncClient,
    path: str,
    body: dict[str, Any],
    on_text: Callable[[str], None] | None = None,
) -> Streamed:
    """POSTs `body` with streaming on and reads the stream to its end; raises nothing that the network did.

    `path` is /v1/chat/completions or /v1/completions; `on_text` gets each piece of text as it comes.
    """
    result = Streamed()
    asked = body | {"stream": True, "stream_options": {"include_usage": True}}
    began = time.perf_counter()
    try:
        async with client.stream("POST", path, json=asked) as response:
            result.status = response.status_code
            if response.status_code != 200:
                result.ending, result.error = Ending.ERROR, error_message(await response.aread())
            else:
                async for event in _events(response):
                    _take(event, result, time.perf_counter() - began, on_text)
    except httpx.HTTPError as error:
        result.error = result.error or (str(error) or type(error).__name__)
    except (ValueError, TypeError, AttributeError, RecursionError):
        result.error = "an event of the stream is not of OpenAI's form"
    result.seconds = time.perf_counter() - began
    return result


async def _events(response: httpx.Response) -> AsyncIterator[bytes]:
    events = Events()
    async for piece in response.aiter_bytes():
        for event in events.of(piece):
            yield event


def _take(event: bytes, result: Streamed, at: float, on_text: Callable[[str], None] | None) -> None:
    if event == b"[DONE]":
        result.ending = Ending.WHOLE
        return
    chunk = json.loads(event)
    if "error" in chunk:
        result.ending, result.error = Ending.ERROR, error_message(event)
        return
    if usage := chunk.get("usage"):
        result.prompt_tokens = usage.get("prompt_tokens") or 0
        result.completion_tokens = usage.get("completion_tokens") or 0
    for choice in chunk.get("choices", ()):
        result.finish_reason = choice.get("finish_reason") or result.finish_reason
        text = choice.get("text") or (choice.get("delta") or {}).get("content") or ""
        if text:
            result.text += text
            result.chunk_times.append(at)
            if on_text:
                on_text(text)
