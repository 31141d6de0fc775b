"""Waiting times in front of servers with Poisson arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import mul

_BINS = 100
_REACH = 12
"""The distribution is followed up to this many mean waits."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A waiting time as probabilities on a grid of `step` seconds; index 0 is no wait at all."""

    step: float
    probability: tuple[float, ...]
    load: float
    """Share of time that the servers are busy; at 1 and above the wait has no bound."""

    @property
    def mean(self) -> float:
        """Seconds."""
        return sum(index * self.step * share for index, share in enumerate(self.probability))


def load(services: Sequence[tuple[float, float]], servers: int) -> float:
    """Share of time that each server is busy; 1 and above: it never catches up."""
    return sum(rate * seconds for rate, seconds in services) / servers


def waiting(services: Sequence[tuple[float, float]], servers: int) -> Wait:
    """First come, first served. `services`: rate of arrivals and seconds of service, for each kind.

    One server: Pollaczek and Khinchine's distribution as a compound geometric sum, exact but for the grid. More
    servers: the same with services shared evenly, times the chance that all are busy (Erlang C).
    """
    arrivals = sum(rate for rate, _ in services)
    busy_share = load(services, servers)
    if busy_share >= 1 or arrivals == 0:
        return Wait(0.0, (1.0,), busy_share)
    shared = [(rate, seconds / servers) for rate, seconds in services]
    mean = sum(rate * seconds**2 for rate, seconds in shared) / (2 * (1 - busy_share))
    reach = max(_REACH * mean, 3 * max(seconds for _, seconds in shared))
    step = reach / _BINS
    residual = _residual(shared, step)
    whole = _compound_geometric(residual, busy_share)
    busy = _erlang_c(servers, busy_share * servers) / busy_share
    probability = [share * busy for share in whole]
    probability[0] += 1 - busy
    return Wait(step, tuple(probability), busy_share)


def _residual(services: Sequence[tuple[float, float]], step: float) -> list[float]:
    """What is left of the service in progress when someone arrives, each cell shared by its two ends."""
    total = sum(rate * seconds for rate, seconds in services)
    shares = [0.0] * (_BINS + 1)
    for rate, seconds in services:
        cells = max(1, min(_BINS, ceil(seconds / step)))
        for cell in range(1, cells + 1):
            inside = min(seconds, cell * step) - (cell - 1) * step
            half = rate * max(0.0, inside) / total / 2
            shares[cell - 1] += half
            shares[cell] += half
    return shares


def _compound_geometric(residual: Sequence[float], busy_share: float) -> list[float]:
    """Panjer's recursion."""
    at_once = 1 - busy_share * residual[0]
    result = [(1 - busy_share) / at_once]
    for index in range(1, _BINS + 1):
        result.append(busy_share / at_once * sum(map(mul, residual[1 : index + 1], reversed(result))))
    rest = max(0.0, 1 - sum(result))
    result[-1] += rest
    return result


def _erlang_c(servers: int, offered: float) -> float:
    """The chance that all servers are busy."""
    blocked = 1.0
    for each in range(1, servers + 1):
        blocked = offered * blocked / (each + offered * blocked)
    return blocked / (1 - (offered / servers) * (1 - blocked))
