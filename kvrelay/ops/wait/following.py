"""Looks again and again until the first token, a cause that no waiting mends, or the end of the time given."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from kvrelay.ops.wait.judging import failure, judge, served
from kvrelay.ops.wait.phases import Memory, Phase
from kvrelay.ops.wait.snapshot import Snapshot
from kvrelay.ops.wait.view import View
from kvrelay.ops.wait.wanted import Wanted

# A look that hangs is given up; the next one starts anew.
_LOOK_SECONDS = 120.0
# However little time is given, one look ends: a diagnosis of nothing helps nobody.
_FIRST_LOOK_SECONDS = 30.0


class Outcome(StrEnum):
    """How the waiting ended."""

    SERVED = "served"
    FAILED = "failed"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True)
class Followed:
    """The end: the last look, judged."""

    outcome: Outcome
    phases: list[Phase]
    snapshot: Snapshot


def follow(
    look: Callable[[], Snapshot], wanted: Wanted, view: View, *, timeout: float, every: float
) -> Followed:
    """Follows a deployment. Raises what `look` raises.

    `look` runs in a thread of its own, so that Ctrl-C ends the waiting at once, whatever call is under way.
    """
    deadline, memory = time.monotonic() + timeout, Memory()
    least = _FIRST_LOOK_SECONDS
    snapshot = Snapshot(datetime.now(UTC))
    while True:
        # What was seen before stands until something newer is seen.
        snapshot = _looked(look, max(least, deadline - time.monotonic())) or _stale(snapshot)
        least = 1.0
        phases = memory.dated(judge(snapshot, wanted), snapshot.at)
        view.show(phases, snapshot.unread)
        if served(phases):
            return Followed(Outcome.SERVED, phases, snapshot)
        if failure(phases):
            return Followed(Outcome.FAILED, phases, snapshot)
        if time.monotonic() + every > deadline:
            return Followed(Outcome.TIMED_OUT, phases, snapshot)
        time.sleep(every)


def _stale(seen: Snapshot) -> Snapshot:
    return replace(seen, unread={**seen.unread, "this time": "no answer; what was seen before is shown"})


def _looked(look: Callable[[], Snapshot], seconds: float) -> Snapshot | None:
    """What `look` gives; None when it hangs."""
    found: queue.SimpleQueue[Snapshot | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            found.put(look())
        except BaseException as error:
            found.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        result = found.get(timeout=min(seconds, _LOOK_SECONDS))
    except queue.Empty:
        return None
    if isinstance(result, BaseException):
        raise result
    return result
