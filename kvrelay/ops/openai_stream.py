"""OpenAI's wire format, as far as every client of it must read it: the events of a stream, and an error's message."""

from __future__ import annotations

import json


class Events:
    """Puts a stream's bytes together, in whatever pieces they come."""

    def __init__(self) -> None:
        self._rest = b""

    def of(self, piece: bytes) -> list[bytes]:
        """The data of each server-sent event whose line this piece completes.

        Only a newline ends a line: str.splitlines, and httpx with it, also cuts at U+2028, U+0085 and others, which an
        answer's text may hold as they are.
        """
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


def error_message(body: bytes) -> str:
    """The message of an OpenAI error, or the start of whatever else a body is, in one line."""
    try:
        error = json.loads(body)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError, RecursionError):
        text = body.decode(errors="replace")
    return " ".join(text.split())[:200] or "no message"
