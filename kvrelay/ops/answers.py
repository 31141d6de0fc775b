"""Greedy answers token by token, to compare one way of serving a model with another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.openai_stream import error_message
from kvrelay.ops.proof_prompts import ProofPrompt


@dataclass(frozen=True, slots=True)
class Answer:
    """The tokens of a greedy answer; `margins` are the log-probability leads of each over the next best one."""

    tokens: tuple[str, ...]
    margins: tuple[float, ...]
    error: str = ""

    @property
    def text(self) -> str:
        return "".join(self.tokens)


async def ask_all(
    endpoint: Endpoint, model: str, prompts: Sequence[ProofPrompt], salt: str, at_once: int = 4
) -> list[Answer]:
    """The answer to each prompt, in their order; a failed request gives an Answer with its error.

    `salt` keeps engines from reusing what they cached for other runs; it changes no answer.
    """
    gate = asyncio.Semaphore(at_once)
    async with endpoint.client() as client:

        async def ask(prompt: ProofPrompt) -> Answer:
            async with gate:
                return await _ask(client, model, prompt, salt)

        return await asyncio.gather(*map(ask, prompts))


async def _ask(client: httpx.AsyncClient, model: str, prompt: ProofPrompt, salt: str) -> Answer:
    body = {
        "model": model,
        "prompt": list(prompt.tokens),
        "max_tokens": prompt.max_tokens,
        "temperature": 0,
        "logprobs": 2,
        "ignore_eos": True,
        "cache_salt": salt,
    }
    try:
        response = await client.post("/v1/completions", json=body)
    except httpx.HTTPError as error:
        return Answer((), (), str(error) or type(error).__name__)
    if response.status_code != 200:
        return Answer((), (), f"{response.status_code}: {error_message(response.content)}")
    return answer_of(response.json()["choices"][0]["logprobs"])


def answer_of(logprobs: dict[str, Any]) -> Answer:
    """An Answer from the `logprobs` of an OpenAI completion that asked for the best two."""
    margins = []
    for chosen, best in zip(logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True):
        others = sorted((value for value in best.values()), reverse=True)[1:2]
        margins.append(float(chosen) - float(others[0]) if others else float("inf"))
    return Answer(tuple(logprobs["tokens"]), tuple(margins))
