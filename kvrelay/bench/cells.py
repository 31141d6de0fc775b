"""Which endpoint is measured when: every request set on every endpoint, in turn."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvrelay.bench.drive import Limits, Run, Target, drive
from kvrelay.bench.outcome import Outcome
from kvrelay.bench.request_set import RequestSet, warmup_requests


@dataclass(frozen=True, slots=True)
class Cell:
    """One request set on one endpoint. Times in seconds."""

    endpoint: str
    rate: float | None
    round: int
    asked: str
    """The request set's fingerprint: cells with the same one were asked the same."""
    load_seconds: float
    elapsed: float
    client_cpu: float
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """One cell to be measured."""

    target: Target
    round: int
    asked: RequestSet


def turns(targets: Sequence[Target], sets: Sequence[Sequence[RequestSet]]) -> Iterator[Turn]:
    """Each round's sets on each target. Every other round goes through the targets backwards: drift favours none."""
    for round_, of_round in enumerate(sets):
        for asked in of_round:
            for target in targets if round_ % 2 == 0 else reversed(targets):
                yield Turn(target, round_, asked)


def measure(turn: Turn, limits: Limits, warmup: int) -> Cell:
    """Warms up, sends the turn's requests, and waits for all answers."""
    # Fresh for each cell: nothing that an engine has cached from another helps.
    salt = secrets.token_hex(8)

    async def run() -> Run:
        if warmup:
            await drive(turn.target, warmup_requests(turn.asked, warmup), limits, salt)
        return await drive(turn.target, turn.asked, limits, salt)

    done = asyncio.run(run())
    return Cell(
        endpoint=turn.target.name,
        rate=turn.asked.rate,
        round=turn.round,
        asked=turn.asked.fingerprint,
        load_seconds=turn.asked.seconds,
        elapsed=round(done.elapsed, 6),
        client_cpu=round(done.client_cpu, 6),
        outcomes=done.outcomes,
    )
