"""The bodies of requests, made before any is sent: making them must not delay the sending."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from random import Random
from typing import Any

from kvrelay.bench.request_set import Request, RequestSet
from kvrelay.ops.proof_prompts import PLAIN_TOKENS

# A token each in usual vocabularies.
_WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
    "country",
    "problem",
    "hand",
    "part",
    "place",
    "case",
    "week",
    "company",
    "system",
    "program",
    "question",
    "work",
    "government",
    "number",
    "night",
    "point",
    "home",
    "water",
    "room",
    "mother",
    "area",
    "money",
    "story",
    "fact",
    "month",
    "lot",
    "right",
    "study",
    "book",
    "eye",
    "job",
    "word",
    "business",
    "issue",
    "side",
    "kind",
    "head",
    "house",
]


class Api(StrEnum):
    """Which of OpenAI's two ways is asked."""

    COMPLETIONS = "completions"
    """The prompt as token ids: exactly as long as asked for."""
    CHAT = "chat"
    """The prompt as a message of as many words; its length in tokens is what the endpoint counts."""

    @property
    def path(self) -> str:
        return "/v1/chat/completions" if self is Api.CHAT else "/v1/completions"


def bodies(
    asked: RequestSet, model: str, api: Api, extensions: bool = True, salt: str = ""
) -> Iterator[bytes]:
    """The JSON body of each request.

    `extensions` are vLLM's own: answers of exactly the length asked for, token counts in every chunk, and `salt`,
    which keeps an engine from using what it cached for another run. Without them only OpenAI's words are used.
    """
    common: dict[str, Any] = {"model": model, "temperature": 0, "stream": True}
    usage: dict[str, bool] = {"include_usage": True}
    if extensions:
        common["ignore_eos"] = True
        usage["continuous_usage_stats"] = True
        if salt:
            common["cache_salt"] = salt
    common["stream_options"] = usage
    for index, request in enumerate(asked.requests):
        source = Random(f"{asked.label}/{index}")
        body = common | {"max_tokens": request.answer_tokens} | _prompt(request, api, source)
        yield json.dumps(body).encode()


def _prompt(request: Request, api: Api, source: Random) -> dict[str, Any]:
    if api is Api.CHAT:
        words = request.prompt or " ".join(
            _WORDS[value % len(_WORDS)] for value in source.randbytes(request.prompt_tokens)
        )
        return {"messages": [{"role": "user", "content": words}]}
    if request.prompt:
        return {"prompt": request.prompt}
    return {
        "prompt": [
            PLAIN_TOKENS[value % len(PLAIN_TOKENS)] for value in source.randbytes(request.prompt_tokens)
        ]
    }
