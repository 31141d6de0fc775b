"""Parts of the served app killed under load: what clients get, and that service returns without a hand.

Each test prints what clients saw: `pytest -s tests/serving/test_faults.py`.
"""

# ruff: noqa: T201 - what clients saw is worth reading

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kvrelay.local.serving.containment import session_processes
from kvrelay.local.serving.session import Session
from kvrelay.ops.answers import Answer
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.engine_metrics import engine_counts, scrape
from kvrelay.ops.proof_prompts import ProofPrompt
from tests.serving.load import ask, judged

PREFILL, DECODE, CONTROLLER = "ServeReplica:llm:Prefill", "ServeReplica:llm:Decode", "ServeController"
# The ingress states these to its clients: a first token within 180 s, no silence over 60 s.
LONGEST_SECONDS = 180 + 60 + 30
RETURN_SECONDS = 420


def processes(session: Session, title: str) -> list[int]:
    """The ids of the session's processes that call themselves so."""
    found = []
    for pid in session_processes(session.id):
        try:
            if title in Path(f"/proc/{pid}/cmdline").read_text():
                found.append(pid)
        except OSError:
            continue
    return found


def engine_of(session: Session, title: str) -> list[int]:
    """The engine processes that are children of the replica with that title."""
    parents = set(processes(session, title))
    return [
        pid
        for pid in processes(session, "VLLM::EngineCore")
        if int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) in parents
    ]


def kill(pids: list[int]) -> None:
    assert pids, "nothing to kill"
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "case", ["prefill", "prefill's engine", "decode", "controller", "prefill and decode"]
)
def test_clients_get_whole_answers_or_clean_errors_and_service_returns(
    session: Session, endpoint: Endpoint, prompts: list[ProofPrompt], reference: list[Answer], case: str
) -> None:
    victims: Callable[[], list[int]] = {
        "prefill": lambda: processes(session, PREFILL),
        "prefill's engine": lambda: engine_of(session, PREFILL),
        "decode": lambda: processes(session, DECODE),
        "controller": lambda: processes(session, CONTROLLER),
        "prefill and decode": lambda: processes(session, PREFILL) + processes(session, DECODE),
    }[case]
    some, right = prompts[:40], reference[:40]

    async def strike() -> None:
        await asyncio.sleep(2)
        kill(victims())

    began = time.monotonic()
    outcome = judged(asyncio.run(ask(endpoint, session.model_id, some, 8, meanwhile=strike)), right)
    print(f"\n{case} killed under load: {outcome}")
    assert not outcome.wrong, outcome.wrong
    assert not outcome.leaks, outcome.leaks
    assert outcome.slowest < LONGEST_SECONDS
    assert outcome.whole + len(outcome.errors) + outcome.cut == len(some)

    back = wait_until_right(session, endpoint, some[:8], right[:8])
    print(f"{case}: all right again {back - began:.0f} s after the load began")
    held = wait_until_freed(endpoint)
    assert not held, f"KV cache is still held: {held}"


def wait_until_right(
    session: Session, endpoint: Endpoint, prompts: list[ProofPrompt], reference: list[Answer]
) -> float:
    """When all of `prompts` are answered rightly again. A wrong answer on the way fails at once."""
    deadline = time.monotonic() + RETURN_SECONDS
    while True:
        outcome = judged(asyncio.run(ask(endpoint, session.model_id, prompts, 4)), reference)
        assert not outcome.wrong, outcome.wrong
        if outcome.whole == len(prompts):
            return time.monotonic()
        assert time.monotonic() < deadline, f"no service {RETURN_SECONDS} s after the fault: {outcome}"
        time.sleep(2)


def wait_until_freed(endpoint: Endpoint, seconds: float = 120) -> dict[str, float]:
    """The share of KV blocks that roles still hold once nothing runs; empty when all is freed in time."""
    deadline = time.monotonic() + seconds
    while True:
        counts = engine_counts(scrape(endpoint.metrics_urls))
        held = {role.value: seen.cache_usage for role, seen in counts.items() if seen.cache_usage}
        if not held or time.monotonic() > deadline:
            return held
        time.sleep(2)
