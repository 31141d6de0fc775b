"""Streams under load, each judged against the reference answer for its own prompt."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kvrelay.ops.answers import Answer
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.proof_prompts import ProofPrompt
from kvrelay.ops.stream import Ending, Streamed, stream

# Two engines' float32 sums may differ in their last bits by how requests are batched.
_NO_REAL_LEAD = 1e-3
_LEAK = re.compile(r"Traceback|\.py\b|/(?:home|root|usr|tmp|work|opt)/|ray::")


@dataclass(slots=True)
class Outcome:
    """What came of all streams. `wrong` are whole answers that are not the reference's."""

    whole: int = 0
    errors: list[str] = field(default_factory=list)
    cut: int = 0
    wrong: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.whole} whole, {len(self.errors)} errors {sorted(set(self.errors))}, {self.cut} cut, "
            f"{len(self.wrong)} wrong, slowest {self.slowest:.1f} s"
        )


async def ask(
    endpoint: Endpoint,
    model: str,
    prompts: Sequence[ProofPrompt],
    at_once: int,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> list[Streamed]:
    """Streams all prompts, at most `at_once` at a time, while `meanwhile` goes on. In the prompts' order."""
    gate = asyncio.Semaphore(at_once)
    async with endpoint.client() as client:

        async def one(prompt: ProofPrompt) -> Streamed:
            async with gate:
                body = {
                    "model": model,
                    "prompt": list(prompt.tokens),
                    "max_tokens": prompt.max_tokens,
                    "temperature": 0,
                    "ignore_eos": True,
                }
                return await stream(client, "/v1/completions", body)

        asked = asyncio.gather(*map(one, prompts))
        if meanwhile:
            await meanwhile()
        return await asked


def judged(streams: Sequence[Streamed], reference: Sequence[Answer]) -> Outcome:
    """Sorts streams by how they ended; a whole one must be its prompt's reference answer."""
    outcome = Outcome()
    for streamed, expected in zip(streams, reference, strict=True):
        outcome.slowest = max(outcome.slowest, streamed.seconds)
        if _LEAK.search(streamed.error):
            outcome.leaks.append(streamed.error)
        if streamed.ending is Ending.ERROR:
            outcome.errors.append(f"{streamed.status}: {streamed.error}")
        elif streamed.ending is Ending.CUT:
            outcome.cut += 1
        elif is_reference(streamed.text, expected):
            outcome.whole += 1
        else:
            outcome.wrong.append(f"{streamed.text!r}, should be {expected.text!r}")
    return outcome


def is_reference(text: str, expected: Answer) -> bool:
    """Whether `text` is the reference's, or leaves it where the reference had no real lead to leave."""
    position = 0
    for token, lead in zip(expected.tokens, expected.margins, strict=True):
        if not text.startswith(token, position):
            return lead < _NO_REAL_LEAD
        position += len(token)
    return position == len(text)
