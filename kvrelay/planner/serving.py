"""Latency and load of prefill/decode and of plain replicas under a workload, by queueing on rooflines."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate

from kvrelay.data.performance import calibration
from kvrelay.planner.engine import Engine
from kvrelay.planner.fit import fit
from kvrelay.planner.roofline import decode_step, prefill_seconds
from kvrelay.planner.transfer import handover_seconds, posting_seconds, transfer
from kvrelay.planner.waiting import Wait, load, waiting
from kvrelay.planner.workload import Requests, Workload

PERCENTILES = (50, 90, 99)
_ROUNDS = 40
_CLOSE = 1e-3
_TOO_MANY = 1e5


@dataclass(frozen=True)
class Latency:
    """What a system does under a workload. Seconds by percentile; infinite where it can't keep up."""

    label: str
    prefill: int
    """Prefill replicas; 0 for plain ones."""
    decode: int
    """Decode replicas, or plain ones."""
    itl: Mapping[int, float]
    prefill_load: float
    """Share of time that prefill takes, of its GPUs or of a plain replica."""
    batch: float
    """Sequences that a decoding replica holds on average."""
    room: int
    """Sequences of the mean length that its cache can hold."""
    wait: Callable[[], Wait]
    """In front of prefill; worked out only when TTFT is asked for."""
    after: Sequence[tuple[float, float]]
    """What follows the wait until the first token: seconds and rate, for each kind of request."""

    @cached_property
    def ttft(self) -> Mapping[int, float]:
        """Time to first token, seconds by percentile."""
        wait = self.wait()
        if wait.load >= 1 or not all(math.isfinite(seconds) for seconds, _ in self.after):
            return dict.fromkeys(PERCENTILES, math.inf)
        weighted = [
            (index * wait.step + seconds, share * rate)
            for seconds, rate in self.after
            for index, share in enumerate(wait.probability)
        ]
        return percentiles(weighted)

    @property
    def keeps_up(self) -> bool:
        """Whether it can serve the workload at all."""
        return self.prefill_load < 1 and self.batch <= self.room and math.isfinite(self.itl[50])


def prefill_decode(
    prefill: Engine, decode: Engine, prefills: int, decodes: int, fabric: str, workload: Workload
) -> Latency:
    """`prefills` prefill replicas hand over to `decodes` decode replicas. Decode pulls, as NIXL does."""
    services = [(kind.rate, prefill_seconds(prefill, kind.prompt)) for kind in workload.kinds]
    posts = [(kind.rate / decodes, posting_seconds(decode, kind.prompt)) for kind in workload.kinds]
    step, batch = _decode_rest(decode, workload, decodes, posts)
    before_token = [
        calibration().request_seconds
        + handover_seconds(kind.prompt)
        + prefill_seconds(prefill, kind.prompt)
        + posting_seconds(decode, kind.prompt)
        + transfer(decode, kind.prompt, fabric).seconds
        + step
        for kind in workload.kinds
    ]
    after = [(seconds, kind.rate) for seconds, kind in zip(before_token, workload.kinds, strict=True)]
    return Latency(
        label=f"{prefills}P:{decodes}D",
        prefill=prefills,
        decode=decodes,
        itl=_itl(step, posts),
        prefill_load=load(services, prefills),
        batch=batch,
        room=_room(decode, workload),
        wait=partial(waiting, services, prefills),
        after=after,
    )


def plain(engine: Engine, replicas: int, workload: Workload) -> Latency:
    """`replicas` ordinary engines with chunked prefill: each prompt's chunks run between decode steps."""
    chunks = [chunk for kind in workload.kinds for chunk in _chunks(engine, kind, replicas)]
    step, batch = _decode_rest(engine, workload, replicas, chunks)
    # A chunk's step carries the decoding sequences along, so that prefill is slowed by what they read.
    services = [
        (kind.rate, prefill_seconds(engine, kind.prompt) + step * _steps(engine, kind))
        for kind in workload.kinds
    ]
    after = [(calibration().request_seconds + seconds, rate) for rate, seconds in services]
    return Latency(
        label=f"{replicas} plain, chunks of {engine.batched_tokens}",
        prefill=0,
        decode=replicas,
        itl=_itl(step, chunks),
        prefill_load=load(services, replicas),
        batch=batch,
        room=_room(engine, workload),
        wait=partial(waiting, services, replicas),
        after=after,
    )


def _decode_rest(
    engine: Engine, workload: Workload, replicas: int, pauses: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """A step's seconds and the sequences in it, where arrivals and departures balance (Little's law).

    `pauses`: rate and seconds of what stops decoding for a while. Infinite when decoding can't keep up.
    """
    paused = sum(rate * seconds for rate, seconds in pauses)
    if paused >= 1:
        return math.inf, math.inf
    wanted = workload.output_rate / replicas / (1 - paused)
    seconds = decode_step(engine, mean_tokens(workload))
    step, batch = seconds(1), 0.0
    for _ in range(_ROUNDS):
        before, batch = batch, wanted * step
        if batch > _TOO_MANY:
            return math.inf, math.inf
        step = seconds(max(1.0, batch))
        if abs(batch - before) <= _CLOSE * batch:
            break
    return step, wanted * step


def mean_tokens(workload: Workload) -> float:
    """Tokens that a decoding sequence holds on average: its prompt and half of its answer."""
    weight = sum(kind.rate * kind.answer for kind in workload.kinds)
    return sum(kind.rate * kind.answer * (kind.prompt + kind.answer / 2) for kind in workload.kinds) / weight


def _room(engine: Engine, workload: Workload) -> int:
    left = fit(engine).cache
    return max(0, min(left // engine.cache.sequence(int(mean_tokens(workload)) + 1), engine.sequences))


def _steps(engine: Engine, kind: Requests) -> int:
    return -(-kind.prompt // engine.batched_tokens)


def _chunks(engine: Engine, kind: Requests, replicas: int) -> list[tuple[float, float]]:
    """The pauses that one kind's prompts make on each replica: full chunks, and the rest."""
    whole, rest = divmod(kind.prompt, engine.batched_tokens)
    each = prefill_seconds(engine, kind.prompt) / kind.prompt
    rate = kind.rate / replicas
    full = [(rate * whole, each * engine.batched_tokens)] if whole else []
    return [*full, (rate, each * rest)] if rest else full


def _itl(step: float, pauses: Sequence[tuple[float, float]]) -> dict[int, float]:
    """Gaps between tokens: a step alone, or a step with a pause before it."""
    if not math.isfinite(step):
        return dict.fromkeys(PERCENTILES, math.inf)
    paused = sum(rate * seconds for rate, seconds in pauses)
    steps = (1 - paused) / step
    hit = sum(rate for rate, _ in pauses)
    weighted = [(step, max(0.0, steps - hit))]
    weighted += [(step + seconds, rate) for rate, seconds in pauses]
    return percentiles(weighted)


def percentiles(weighted: Sequence[tuple[float, float]]) -> dict[int, float]:
    """The values below which 50, 90 and 99 percent of the weight lie; `weighted` holds values and weights."""
    ordered = sorted(weighted)
    whole = sum(weight for _, weight in ordered)
    seen = list(accumulate(weight for _, weight in ordered))
    # The last value closes what rounding leaves open.
    return {
        each: ordered[min(bisect_left(seen, each / 100 * whole), len(ordered) - 1)][0] for each in PERCENTILES
    }
