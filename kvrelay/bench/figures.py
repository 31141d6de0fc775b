"""Percentiles, rates and goodput of outcomes: pure functions of what was recorded."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from kvrelay.bench.outcome import Outcome

# A reader notices a pause of this length.
STALL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Goals:
    """What a request must keep to count as good, in seconds: its TTFT, and the 99th percentile of its own gaps."""

    ttft: float
    itl: float

    def met(self, outcome: Outcome) -> bool:
        """Whether the answer came whole and in time. TTFT counts from when the request was meant to be sent."""
        if not outcome.whole or outcome.ttft > self.ttft:
            return False
        return not outcome.gaps_us or percentile(outcome.gaps, 99) <= self.itl


@dataclass(frozen=True, slots=True)
class Spread:
    """How values lie, in seconds."""

    count: int
    mean: float
    p50: float
    p90: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """None without values."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p90, p99 = (_at(ordered, each) for each in (50, 90, 99))
        return cls(len(ordered), math.fsum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


@dataclass(frozen=True, slots=True)
class Figures:
    """What a set of outcomes amounts to. Latencies are of answers that came whole; seconds and tokens."""

    requests: int
    whole: int
    failed: dict[str, int]
    """By ending: error, cut, refused, time limit."""
    errors: dict[str, int]
    """How often each message came, most frequent first."""
    prompt_tokens: int
    output_tokens: int
    output_tokens_per_s: float
    ttft: Spread | None
    """From when each request was meant to be sent."""
    ttft_from_sending: Spread | None
    itl: Spread | None
    """All gaps of all answers."""
    tpot: Spread | None
    end_to_end: Spread | None
    within_goals: int
    goodput: float
    """Requests within the goals for each second of load."""
    stalled: int
    """Answers with a gap of over 100 ms."""
    stalls: int
    late: Spread | None
    """By how much the client missed its own plan."""
    exact: bool
    """Whether the endpoint counted every token itself."""

    @property
    def within_share(self) -> float:
        return self.within_goals / self.requests if self.requests else 0.0

    @property
    def stalled_share(self) -> float:
        return self.stalled / self.whole if self.whole else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which `percent` of all lie, linear between neighbours, as numpy's default. Needs a value."""
    return _at(sorted(values), percent)


def _at(ordered: Sequence[float], percent: float) -> float:
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def figures(
    outcomes: Sequence[Outcome], load_seconds: float, goals: Goals, elapsed: float | None = None
) -> Figures:
    """Figures of outcomes that were asked for over `load_seconds`; the last ended after `elapsed` (found if None)."""
    whole = [outcome for outcome in outcomes if outcome.whole]
    tokens = sum(outcome.tokens for outcome in outcomes)
    elapsed = max((outcome.ended for outcome in outcomes), default=0.0) if elapsed is None else elapsed
    within = sum(map(goals.met, outcomes))
    stalls = [outcome.stalls(STALL_SECONDS) for outcome in whole]
    return Figures(
        requests=len(outcomes),
        whole=len(whole),
        failed=dict(Counter(outcome.ending.value for outcome in outcomes if not outcome.whole)),
        errors=dict(Counter(outcome.error for outcome in outcomes if outcome.error).most_common()),
        prompt_tokens=sum(outcome.prompt_tokens for outcome in outcomes),
        output_tokens=tokens,
        output_tokens_per_s=tokens / elapsed if elapsed else 0.0,
        ttft=Spread.of(outcome.ttft for outcome in whole),
        ttft_from_sending=Spread.of(outcome.ttft_from_sending for outcome in whole),
        itl=Spread.of(chain.from_iterable(outcome.gaps for outcome in whole)),
        tpot=Spread.of(outcome.tpot for outcome in whole if outcome.tpot is not None),
        end_to_end=Spread.of(outcome.end_to_end for outcome in whole),
        within_goals=within,
        goodput=within / load_seconds if load_seconds else 0.0,
        stalled=sum(count > 0 for count in stalls),
        stalls=sum(stalls),
        late=Spread.of(outcome.late for outcome in outcomes),
        exact=bool(whole) and all(outcome.exact for outcome in whole),
    )
