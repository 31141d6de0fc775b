"""A recorded load: one JSON object a line, in kvrelay's own words or in those of Mooncake's published traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvrelay.bench.lengths import MOST_TOKENS
from kvrelay.bench.request_set import MOST_REQUESTS, Request, RequestSet
from kvrelay.errors import UserError

_MOST_BYTES = 500_000_000
_LATEST = 1e12
_EXAMPLE = '{"at": 0.25, "prompt_tokens": 512, "answer_tokens": 128}'


def read_trace(path: Path) -> RequestSet:
    """The requests of a file, in the order of their times, which start at its first.

    A line has `at` (seconds), `answer_tokens`, and `prompt_tokens` or the text in `prompt`; `kind` is optional.
    Mooncake's `timestamp` (ms), `input_length` and `output_length` are read too. Raises UserError, one line.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"--trace: {path} is larger than {_MOST_BYTES // 1_000_000} MB")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"--trace: {path} can't be read: {error.strerror}") from None
    requests = []
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                requests.append(_request(json.loads(line)))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                reason = _reason(error)
                raise UserError(
                    f"--trace: {path}:{number}: {reason}; a line is for example {_EXAMPLE}"
                ) from None
    if not 0 < len(requests) <= MOST_REQUESTS:
        raise UserError(
            f"--trace: {path} holds {len(requests)} requests; 1 to {MOST_REQUESTS} can be replayed"
        )
    requests.sort(key=lambda request: request.at)
    first = requests[0].at
    shifted = tuple(
        Request(round(each.at - first, 6), each.prompt_tokens, each.answer_tokens, each.kind, each.prompt)
        for each in requests
    )
    # The last request stands for one mean gap, as every other does.
    last = shifted[-1].at
    seconds = last * len(shifted) / (len(shifted) - 1) if last else 1.0
    return RequestSet("trace", shifted, seconds)


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    if isinstance(error, json.JSONDecodeError | RecursionError | UnicodeDecodeError):
        return "is not JSON"
    return str(error)


def _request(line: Any) -> Request:
    if not isinstance(line, dict):
        raise ValueError("is not a JSON object")
    if "timestamp" in line and "at" not in line:
        at = _time(line, "timestamp") / 1000
        return Request(at, _tokens(line, "input_length"), _tokens(line, "output_length"), "trace")
    at, answer = _time(line, "at"), _tokens(line, "answer_tokens")
    text, kind = line.get("prompt", ""), line.get("kind", "trace")
    if not isinstance(text, str) or not isinstance(kind, str):
        raise ValueError("prompt and kind must be text")
    if text:
        return Request(at, 0, answer, kind, text)
    return Request(at, _tokens(line, "prompt_tokens"), answer, kind)


def _time(line: dict[str, Any], key: str) -> float:
    value = line[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        raise ValueError(f"{key} is {value!r}, not a time from 0 on")
    return float(value)


def _tokens(line: dict[str, Any], key: str) -> int:
    value = line[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_TOKENS:
        raise ValueError(f"{key} is {value!r}, not a number of tokens from 1 to {MOST_TOKENS}")
    return value
