"""What a deployment costs and counts against quotas, and whether a second Ray cluster has room beside the first."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kvrelay.data import instance_type
from kvrelay.data.quotas import vcpu_quota
from kvrelay.planner.asked import footprint
from kvrelay.planner.cost import cost
from kvrelay.serve_app import ServeApp
from kvrelay.settings import Deployment


@dataclass(frozen=True, slots=True)
class Bill:
    """One side of a comparison."""

    usd_per_hour: float | None
    vcpus: dict[str, int]
    """By the quota they count against."""


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs of the largest node groups allowed, and what two Ray clusters need at once."""

    needed: int
    available: int

    @property
    def missing(self) -> int:
        """GPUs that a second cluster would wait for."""
        return max(0, self.needed - self.available)


def bill(deployment: Deployment) -> Bill:
    """Price and quota use of a deployment's nodes as they normally run."""
    vcpus: Counter[str] = Counter()
    for group in deployment.gpu_nodes.groups:
        kind = instance_type(group.instance_type)
        if group.capacity.type != "capacity-block":  # these don't count against On-Demand quotas
            quota = vcpu_quota(kind, "spot" if group.capacity.type == "spot" else "on-demand")
            vcpus[quota.name] += kind.vcpus * group.count
    system = instance_type(deployment.system_nodes.instance_type)
    vcpus[vcpu_quota(system).name] += system.vcpus * deployment.system_nodes.count
    return Bill(cost(footprint(deployment)).usd_per_hour, dict(vcpus))


def room(before: ServeApp, after: ServeApp, deployment: Deployment) -> Room:
    """GPUs that the old and the new Ray cluster need together, beside those that the node groups may grow to."""
    needed = sum(
        engine.replicas.initial * engine.tensor_parallel * engine.pipeline_parallel
        for app in (before, after)
        for engine in app.engines
    )
    available = 0
    for group in deployment.gpu_nodes.groups:
        gpu = instance_type(group.instance_type).gpu
        available += group.largest_count * (gpu.count if gpu else 0)
    return Room(needed, available)
