"""The whole plan of a deployment: fit, transfer, prefill/decode against plain replicas, cost, time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvrelay.planner.alternatives import Alternative, alternatives
from kvrelay.planner.asked import Asked, Role
from kvrelay.planner.cost import Cost, cost
from kvrelay.planner.fit import GIB, Fit, fit
from kvrelay.planner.ratio import Comparison, Goals, comfortable_rate, compare, usual_goals
from kvrelay.planner.roofline import prefill_seconds
from kvrelay.planner.timeline import PHASES, Timeline, timeline
from kvrelay.planner.transfer import Transfer, fabric_of, possible_fabrics, transfer
from kvrelay.planner.workload import Workload, spread


@dataclass(frozen=True, slots=True)
class RoleFit:
    """How one role fits, and what would where it doesn't."""

    role: Role
    fit: Fit
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class Road:
    """One prompt length: the prefill that hides the transfer, and the transfer by fabric."""

    tokens: int
    prefill_seconds: float
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the planner knows of a deployment."""

    asked: Asked
    fits: tuple[RoleFit, ...]
    roads: tuple[Road, ...]
    comparison: Comparison | None
    """None where a role does not fit, or there is one replica only."""
    cost: Cost
    timelines: Mapping[str, Timeline]

    @property
    def all_fit(self) -> bool:
        """Whether every role fits."""
        return all(each.fit.fits for each in self.fits)


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked beyond the files. None: the planner chooses, and says what it chose."""

    workload: Workload | None = None
    """Only its mix counts; the rate is the next setting."""
    rate: float | None = None
    ttft_p90: float | None = None
    itl_p99: float | None = None


def plan(asked: Asked, wish: Wish | None = None) -> Plan:
    """Sizes, times and prices a deployment."""
    wish = wish or Wish()
    fits = tuple(role_fit(role, asked.footprint.region) for role in asked.roles)
    bill = cost(asked.footprint)
    weights_gib = max(each.fit.weights * each.role.engine.tensor_parallel for each in fits) / GIB
    workload = wish.workload or usual_workload(asked)
    compared = None
    if all(each.fit.fits for each in fits) and asked.replicas > 1:
        engine = asked.decode.engine
        usual = usual_goals(engine, workload)
        rate = wish.rate or comfortable_rate(engine, asked.replicas, workload)
        compared = compare(
            asked.prefill.engine,
            engine,
            asked.replicas,
            workload.at(max(rate, 1e-3)),
            fabric_of(engine.instance),
            Goals(wish.ttft_p90 or usual.ttft_p90, wish.itl_p99 or usual.itl_p99),
            bill.usd_per_hour,
        )
    return Plan(
        asked=asked,
        fits=fits,
        roads=tuple(_road(asked, tokens) for tokens in _lengths(asked, workload)),
        comparison=compared,
        cost=bill,
        timelines={phase: timeline(phase, weights_gib, asked.image_pull.seconds) for phase in PHASES},
    )


def role_fit(role: Role, region: str) -> RoleFit:
    """How a role fits; the alternatives are worked out only where it doesn't."""
    found = fit(role.engine)
    return RoleFit(role, found, () if found.fits else tuple(alternatives(role.engine, region)))


def usual_workload(asked: Asked) -> Workload:
    """Prompts around half of max_model_len and answers of a sixteenth, where nothing else is said."""
    longest = asked.decode.engine.max_model_len
    return spread(1.0, max(1, longest // 2), max(1, longest // 16), longest)


def _lengths(asked: Asked, workload: Workload) -> list[int]:
    longest = asked.decode.engine.max_model_len
    mean = sum(kind.rate * kind.prompt for kind in workload.kinds) / workload.rate
    return sorted({min(int(mean), longest), longest})


def _road(asked: Asked, tokens: int) -> Road:
    engine = asked.decode.engine
    fabrics = possible_fabrics(engine.instance)
    return Road(
        tokens,
        prefill_seconds(asked.prefill.engine, tokens),
        tuple(transfer(engine, tokens, fabric) for fabric in fabrics),
    )
