"""The app as it is served on this machine, and what one ordinary engine says to the same prompts."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.serving.command import STATE
from kvrelay.local.serving.environment import PROJECT, require_environment
from kvrelay.local.serving.reference import reference_answers
from kvrelay.local.serving.session import Session, SessionFolder
from kvrelay.local.serving.tiny_model import tiny_model
from kvrelay.ops.answers import Answer
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.proof_prompts import ProofPrompt
from kvrelay.serve_app import load_serve_app

ENABLED = "KVRELAY_TEST_SERVING" in os.environ
FOLDER = SessionFolder(STATE / "serving")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and not ENABLED:
            item.add_marker(pytest.mark.skip(reason="serves for real, for minutes: make test-serving"))


def kvrelay(*arguments: str, seconds: float = 900) -> subprocess.CompletedProcess[str]:
    """Runs the command line as a person would."""
    return subprocess.run(
        ["kvrelay", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False, timeout=seconds
    )


def running_session() -> Session:
    """The session that serves now; fails the test when there is none."""
    session = FOLDER.session()
    assert session is not None, "nothing is served"
    assert session.alive, "the session has ended"
    return session


@pytest.fixture(scope="session")
def session() -> Iterator[Session]:
    """`kvrelay local serve`, ended by `kvrelay local stop`. A session that already runs is used and left."""
    found = FOLDER.session()
    begun = found is None or not found.alive
    if begun:
        result = kvrelay("local", "serve")
        assert result.returncode == 0, result.stdout + result.stderr
    yield running_session()
    if begun:
        assert kvrelay("local", "stop").returncode == 0


@pytest.fixture(scope="session")
def endpoint(session: Session) -> Endpoint:
    return session.endpoint


@pytest.fixture(scope="session")
def prompts() -> list[ProofPrompt]:
    """200 prompts of 8 to 160 tokens, no two alike, each to be answered with 24 tokens.

    All letters: after bytes that are no text, vLLM's streamed answer begins with part of the prompt.
    """
    source = random.Random(11)
    return [
        ProofPrompt(tuple(source.randint(40, 90) for _ in range(source.randint(8, 160))), 24)
        for _ in range(200)
    ]


@pytest.fixture(scope="session")
def reference(prompts: list[ProofPrompt]) -> list[Answer]:
    """What one ordinary engine, without any hand-over, answers to `prompts`."""
    interpreter = require_environment().interpreter
    model = tiny_model(interpreter, STATE / "models")
    # The block size and length that this machine's target gives every engine.
    return reference_answers(interpreter, STATE / "reference", model, prompts, 32, 2048)


@pytest.fixture(scope="session")
def served_lengths(session: Session) -> tuple[int, int]:
    """Tokens a block, and the longest prompt and answer together."""
    arguments = load_serve_app(Path(session.config)).engines[0].arguments
    return int(arguments["block_size"]), int(arguments["max_model_len"])
