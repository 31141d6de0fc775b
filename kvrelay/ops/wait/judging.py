"""One snapshot, judged: the phases of a deployment in order, with their states and causes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kvrelay.ops.wait import aws_phases, cluster_phases, serving_phases
from kvrelay.ops.wait.phases import Phase, Progress, State
from kvrelay.ops.wait.snapshot import Snapshot
from kvrelay.ops.wait.wanted import Wanted


@dataclass(frozen=True)
class Kind:
    """A phase: its name, what it waits for, the step of kvrelay's timeline that times it, and how it is judged."""

    name: str
    after: tuple[str, ...]
    step: str
    judge: Callable[[Snapshot, Wanted], Progress]
    in_cluster: bool = True


KINDS = (
    Kind("network", (), "network", aws_phases.network, False),
    Kind("control plane", ("network",), "control-plane", aws_phases.control_plane, False),
    Kind("system nodes", ("control plane",), "system-nodes", aws_phases.system_nodes, False),
    Kind("GPU nodes", ("control plane",), "gpu-nodes", aws_phases.gpu_nodes, False),
    Kind("serving stack", ("control plane",), "", aws_phases.serving_stack, False),
    Kind("device plugins", ("GPU nodes",), "device-plugins", cluster_phases.device_plugins),
    Kind("operator", ("system nodes",), "operator", cluster_phases.operator),
    Kind("Ray head", ("operator",), "image-pull", cluster_phases.head),
    Kind("workers placed", ("operator", "GPU nodes"), "device-plugins", cluster_phases.workers),
    Kind("image", ("workers placed",), "image-pull", cluster_phases.image),
    Kind("weights", ("image", "Ray head"), "weights", serving_phases.weights),
    Kind("engines", ("weights",), "engine-start", serving_phases.engines),
    Kind("handshake", ("engines",), "first-token", serving_phases.handshake),
    Kind("endpoint", ("engines",), "first-token", serving_phases.endpoint),
)


def judge(snapshot: Snapshot, wanted: Wanted) -> list[Phase]:
    """The phases in order. What can't be seen yet waits; what has begun before its turn is shown as it is."""
    phases: dict[str, Phase] = {}
    for kind in KINDS:
        before = [phases[name] for name in kind.after]
        due = all(phase.state is State.DONE for phase in before)
        if kind.in_cluster and not snapshot.readable:
            phases[kind.name] = Phase(kind.name, State.WAITING, usual=wanted.usual.get(kind.step))
            continue
        progress = kind.judge(snapshot, wanted)
        if progress.cause and any(
            each.cause and each.cause.said == progress.cause.said for each in phases.values()
        ):
            progress = replace(progress, cause=None)  # an earlier phase says it already
        if progress.began is None and due:
            began = max((phase.ended for phase in before if phase.ended), default=None)
            progress = replace(progress, began=began)
        phases[kind.name] = Phase.of(kind.name, progress, wanted.usual.get(kind.step), snapshot.at, due=due)
    return list(phases.values())


def served(phases: list[Phase]) -> bool:
    """Whether the first token came."""
    return all(phase.state is State.DONE for phase in phases)


def failure(phases: list[Phase]) -> Phase | None:
    """The first phase that can't go on."""
    return next((phase for phase in phases if phase.state is State.FAILED), None)
