"""The served app's answers: proved by kvrelay verify, and right for 200 streams at once."""

from __future__ import annotations

import asyncio
import json

from kvrelay.local.serving.session import Session
from kvrelay.ops.answers import Answer
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.proof_prompts import ProofPrompt
from tests.serving.conftest import kvrelay
from tests.serving.load import ask, judged


def test_verify_proves_that_the_cache_moved_and_the_answers_are_right(session: Session) -> None:
    result = kvrelay("verify", "--target", "local", "--output", "json")
    assert result.returncode == 0, result.stdout + result.stderr
    proof = json.loads(result.stdout)
    assert proof["proved"], result.stdout
    assert len(proof["claims"]) == 6


def test_200_streams_at_once_lose_and_mix_no_answer(
    session: Session, endpoint: Endpoint, prompts: list[ProofPrompt], reference: list[Answer]
) -> None:
    streams = asyncio.run(ask(endpoint, session.model_id, prompts, at_once=len(prompts)))
    outcome = judged(streams, reference)
    assert outcome.whole == len(prompts), f"{outcome}: {outcome.wrong[:2]}"
    for prompt, streamed in zip(prompts, streams, strict=True):
        assert (streamed.prompt_tokens, streamed.completion_tokens) == (prompt.length, prompt.max_tokens)


def test_chat_prints_an_answer(session: Session) -> None:
    result = kvrelay("chat", "--max-tokens", "8", "Hello")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()
