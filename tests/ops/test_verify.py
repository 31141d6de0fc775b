"""Engines report late: what was asked before kvrelay verify must not be counted as its own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from kvrelay.ops import verify
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.engine_metrics import EngineCounts, EngineRole
from kvrelay.ops.proof import KvGeometry
from kvrelay.ops.verify import BusyAppError, ProofTarget, gather


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class App:
    """An app whose metrics page shows a request some seconds after it was answered."""

    def __init__(self, clock: Clock, reference_seconds: float) -> None:
        self.clock = clock
        self.reported: list[tuple[float, int]] = []
        self.asked_at = 0.0
        self.busy = False
        self.target = ProofTarget(
            Endpoint("http://nowhere.invalid"), "model", KvGeometry(64, 16), 256, self._reference
        )
        self._reference_seconds = reference_seconds

    def _reference(self, *_: Any) -> list[Any]:
        self.clock.sleep(self._reference_seconds)
        return []

    def answer(self, tokens: int, shown_after: float) -> None:
        self.reported.append((self.clock.now + shown_after, tokens))

    def counts(self, _: ProofTarget) -> dict[EngineRole, EngineCounts]:
        seen = [tokens for at, tokens in self.reported if at <= self.clock.now]
        moving = self.clock.now if self.busy else 0
        decode = EngineCounts({"external_kv_transfer": sum(seen) + moving}, transfers=len(seen))
        return {EngineRole.DECODE: decode}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(verify, "time", made)
    return made


def gathered(app: App, monkeypatch: pytest.MonkeyPatch) -> EngineCounts:
    """What verify counts as decode's work for its own prompts."""

    async def ask_all(_: Endpoint, __: str, prompts: Any, ___: str) -> list[Any]:
        app.asked_at = app.clock.now
        for prompt in prompts:
            app.answer(prompt.length, shown_after=9)
        return []

    ask: Callable[..., Coroutine[Any, Any, list[Any]]] = ask_all
    monkeypatch.setattr(verify, "ask_all", ask)
    monkeypatch.setattr(verify, "_counts", app.counts)
    return gather(app.target, lambda line: None).decode


def test_a_request_from_before_that_shows_late_is_not_counted(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(clock, reference_seconds=0)
    app.answer(45, shown_after=8)
    decode = gathered(app, monkeypatch)
    own = app.reported[1:]
    assert decode.transfers == len(own)
    assert sum(decode.prompt_tokens.values()) == sum(tokens for _, tokens in own)


def test_an_app_that_was_idle_while_the_reference_answered_is_not_waited_for(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(clock, reference_seconds=100)
    gathered(app, monkeypatch)
    assert app.asked_at == 1100


def test_an_app_that_others_use_is_said_to_be_busy(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    app = App(clock, reference_seconds=100)
    app.busy = True
    with pytest.raises(BusyAppError, match="the app answers other requests") as caught:
        gathered(app, monkeypatch)
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    assert app.asked_at == 0


@pytest.mark.parametrize("shortest", [1, 2, 6])
def test_prompts_shorter_than_the_target_allows_are_not_asked(
    shortest: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(clock, reference_seconds=0)
    app.target = replace(app.target, shortest=shortest)
    gathered(app, monkeypatch)
    asked = [tokens for _, tokens in app.reported]
    assert min(asked) >= shortest
    assert (1 in asked) == (shortest == 1)
    assert 16 in asked
