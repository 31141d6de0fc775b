"""Does prefill/decode pay, and at what ratio: every split of the nodes beside plain replicas on the same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kvrelay.planner.engine import Engine
from kvrelay.planner.serving import Latency, plain, prefill_decode
from kvrelay.planner.workload import Workload

_HALVINGS = 9
_ALONE = 1e-4
"""Requests a second at which none meets another."""


@dataclass(frozen=True, slots=True)
class Goals:
    """What users must see. Seconds; TTFT for nine requests in ten, ITL for 99 tokens in a hundred."""

    ttft_p90: float
    itl_p99: float


def usual_goals(engine: Engine, workload: Workload) -> Goals:
    """TTFT within 2 s and ITL within 200 ms, or three times what a lone request takes where that is longer."""
    alone = plain(engine, 1, workload.at(_ALONE))
    return Goals(max(2.0, _rounded(3 * alone.ttft[90])), max(0.2, _rounded(3 * alone.itl[50])))


def _rounded(seconds: float) -> float:
    """Two significant digits: a goal, not a measurement."""
    return float(f"{seconds:.2g}")


@dataclass(frozen=True, slots=True)
class Option:
    """One way to use the nodes."""

    latency: Latency
    """At the rate asked for."""
    usd_per_hour: float | None
    capacity: float
    """Requests a second that it serves without bound on latency, at the workload's mix."""
    goodput: float
    """Requests a second up to which the goals are met; 0 if they never are."""
    usd_per_million_tokens: float | None
    """Prompt and answer tokens, at its goodput; None where a price is unknown or no goal is met."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All options on the same number of replicas, at the same rate."""

    options: tuple[Option, ...]
    """Plain replicas first, then splits by their prefill replicas."""
    workload: Workload
    goals: Goals

    @property
    def plain(self) -> Option:
        """Ordinary replicas."""
        return self.options[0]

    @property
    def best_split(self) -> Option:
        """The split that serves the most within the goals."""
        return max(self.options[1:], key=lambda option: (option.goodput, option.capacity))

    @property
    def pays(self) -> bool:
        """Whether the best split serves more within the goals than plain replicas on the same nodes."""
        return self.best_split.goodput > self.plain.goodput

    @property
    def verdict(self) -> str:
        """One sentence that says which wins, by how much."""
        split, ordinary = self.best_split, self.plain
        if self.pays:
            gain = (
                f"{split.goodput / ordinary.goodput - 1:.0%} more than"
                if ordinary.goodput
                else "which they never do as"
            )
            return (
                f"prefill/decode pays: {split.latency.label} meets the goals up to {split.goodput:.2f} requests/s, "
                f"{gain} {ordinary.latency.decode} plain replicas"
            )
        if ordinary.goodput == 0:
            return (
                f"no option meets the goals (TTFT p90 {self.goals.ttft_p90:g} s, ITL p99 {self.goals.itl_p99:g} s); "
                f"plain replicas serve {ordinary.capacity:.2f} requests/s without them, "
                f"{split.latency.label} {split.capacity:.2f}"
            )
        return (
            f"plain replicas win: {ordinary.latency.decode} of them meet the goals up to "
            f"{ordinary.goodput:.2f} requests/s, the best split {split.latency.label} up to {split.goodput:.2f}"
        )


def compare(
    prefill: Engine,
    decode: Engine,
    replicas: int,
    workload: Workload,
    fabric: str,
    goals: Goals,
    usd_per_hour: float | None,
) -> Comparison:
    """`replicas` engines in all, 2 at least. `usd_per_hour`: of the whole deployment, the same for all options."""
    ordinary = max(
        (_option(partial(plain, tuned, replicas), workload, goals, usd_per_hour) for tuned in _tuned(decode)),
        key=lambda option: (option.goodput, option.capacity),
    )
    splits = [
        _option(
            partial(prefill_decode, prefill, decode, count, replicas - count, fabric),
            workload,
            goals,
            usd_per_hour,
        )
        for count in range(1, replicas)
    ]
    return Comparison((ordinary, *splits), workload, goals)


def _tuned(engine: Engine) -> list[Engine]:
    """Plain replicas with their usual chunk and with smaller ones: a fair rival is a tuned one."""
    usual = engine.batched_tokens
    return [replace(engine, max_num_batched_tokens=chunk) for chunk in (usual, usual // 4) if chunk >= 256]


def comfortable_rate(engine: Engine, replicas: int, workload: Workload) -> float:
    """Half of what plain replicas can serve: a rate to compare at where none is given."""
    return _largest(lambda asked: plain(engine, replicas, asked).keeps_up, workload) / 2


def _option(
    run: Callable[[Workload], Latency], workload: Workload, goals: Goals, usd_per_hour: float | None
) -> Option:
    def meets(asked: Workload) -> bool:
        latency = run(asked)
        return latency.keeps_up and latency.itl[99] <= goals.itl_p99 and latency.ttft[90] <= goals.ttft_p90

    goodput = _largest(meets, workload)
    cost = None
    if usd_per_hour is not None and goodput > 0:
        cost = usd_per_hour / (workload.at(goodput).token_rate * 3600) * 1e6
    return Option(
        latency=run(workload),
        usd_per_hour=usd_per_hour,
        capacity=_largest(lambda asked: run(asked).keeps_up, workload),
        goodput=goodput,
        usd_per_million_tokens=cost,
    )


def _largest(holds: Callable[[Workload], bool], workload: Workload) -> float:
    """The largest rate of the mix at which `holds`, to a few parts in a thousand; 0 if it never does."""
    low = _ALONE
    if not holds(workload.at(low)):
        return 0.0
    high = low
    while holds(workload.at(high)) and high < 1e5:
        low, high = high, high * 4
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(workload.at(middle)) else (low, middle)
    return low
