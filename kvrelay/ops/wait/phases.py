"""A phase of a deployment: how far it is, since when, how long it usually takes, and why when it is late."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from kvrelay.ops.wait.causes import Cause

# Later than this share over the usual time, and these seconds, a phase is late.
_LATE_FACTOR, _LATE_SECONDS = 1.5, 30.0


class State(StrEnum):
    """`late` goes on; `failed` does not."""

    WAITING = "waiting"
    WORKING = "working"
    LATE = "late"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True)
class Progress:
    """What a snapshot shows of one phase. `began` and `ended` are None where nothing tells."""

    done: bool = False
    detail: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    cause: Cause | None = None


@dataclass(frozen=True)
class Phase:
    """One row of the view."""

    name: str
    state: State
    detail: str = ""
    began: datetime | None = None
    ended: datetime | None = None
    elapsed: float | None = None
    """Seconds, so far or in all."""
    usual: float | None = None
    """Seconds, from kvrelay's durations; None where there is none."""
    cause: Cause | None = None

    @classmethod
    def of(cls, name: str, progress: Progress, usual: float | None, now: datetime, *, due: bool) -> Phase:
        """`due` says whether all that the phase waits for is done."""
        elapsed = None
        # Done at a time that nobody tells: how long it took is not known.
        if progress.began is not None and not (progress.done and progress.ended is None):
            elapsed = max(0.0, ((progress.ended or now) - progress.began).total_seconds())
        if progress.done:
            state = State.DONE
        elif progress.cause and progress.cause.final:
            state = State.FAILED
        elif not due and not progress.cause:
            state, elapsed = State.WAITING, None
        elif progress.cause or (usual and elapsed and elapsed > usual * _LATE_FACTOR + _LATE_SECONDS):
            state = State.LATE
        else:
            state = State.WORKING
        return cls(
            name, state, progress.detail, progress.began, progress.ended, elapsed, usual, progress.cause
        )

    def as_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "phase": self.name,
            "state": str(self.state),
            "detail": self.detail,
            "elapsed_s": None if self.elapsed is None else round(self.elapsed, 1),
            "usual_s": None if self.usual is None else round(self.usual, 1),
            "cause": self.cause
            and {"name": self.cause.name, "said": self.cause.said, "mend": self.cause.mend},
        }

    def since(self, began: datetime | None, ended: datetime | None, now: datetime) -> Phase:
        """The same with the times that an earlier look saw, where the world itself tells none."""
        if self.state is State.WAITING:
            return self
        begin, end = self.began or began, (self.ended or ended) if self.state is State.DONE else None
        known = begin is not None and (end is not None or self.state is not State.DONE)
        elapsed = max(0.0, ((end or now) - begin).total_seconds()) if begin and known else None
        return replace(self, began=begin, ended=end, elapsed=elapsed)


class Memory:
    """When phases were first seen under way and first seen done, for those whose times nothing else tells."""

    def __init__(self) -> None:
        self._began: dict[str, datetime] = {}
        self._ended: dict[str, datetime] = {}
        self._first = True

    def dated(self, phases: list[Phase], now: datetime) -> list[Phase]:
        """The phases with what was seen before."""
        dated = []
        for phase in phases:
            if phase.state is State.DONE:
                # What was done at the first look already took a time that nobody knows.
                if not self._first:
                    self._ended.setdefault(phase.name, now)
            elif phase.state is not State.WAITING:
                self._began.setdefault(phase.name, now)
                self._ended.pop(phase.name, None)
            dated.append(phase.since(self._began.get(phase.name), self._ended.get(phase.name), now))
        self._first = False
        return dated
