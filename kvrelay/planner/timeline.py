"""How long deploy, destroy and restart take: the critical path through dated step durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvrelay.data.reading import load


@dataclass(frozen=True, slots=True)
class Step:
    """One step with its place in time, in seconds from the start."""

    name: str
    start: float
    seconds: float
    critical: bool
    """Whether the end would come later if it took longer."""
    source: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """All steps of one phase, in the order they start."""

    phase: str
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """When the last step ends."""
        return max(step.start + step.seconds for step in self.steps)

    @property
    def critical_path(self) -> tuple[str, ...]:
        """The steps that the end waits for."""
        return tuple(step.name for step in self.steps if step.critical)


PHASES = ("deploy", "destroy", "restart-warm", "restart-cold")


def timeline(phase: str, weights_gib: float, pull_seconds: float) -> Timeline:
    """The steps of a phase: `weights_gib` GiB of weights on each node, whose image takes `pull_seconds` to get."""
    entries: Mapping[str, Mapping[str, Any]] = load("durations.yaml")[phase]
    lasts = {
        name: entry["seconds"]
        + entry.get("per_gib", 0.0) * weights_gib
        + (pull_seconds if entry.get("pull") else 0.0)
        for name, entry in entries.items()
    }
    starts: dict[str, float] = {}
    for name, entry in entries.items():  # the file names each step after what it waits for
        starts[name] = max((starts[other] + lasts[other] for other in entry["after"]), default=0.0)
    critical = _critical(entries, starts, lasts)
    steps = [
        Step(name, starts[name], lasts[name], name in critical, entries[name]["source"]) for name in entries
    ]
    return Timeline(phase, tuple(sorted(steps, key=lambda step: step.start)))


def _critical(
    entries: Mapping[str, Mapping[str, Any]], starts: Mapping[str, float], lasts: Mapping[str, float]
) -> set[str]:
    """Back from the last end to the start, always along the step that was waited for."""
    name = max(entries, key=lambda each: starts[each] + lasts[each])
    path = {name}
    while entries[name]["after"]:
        name = max(entries[name]["after"], key=lambda each: starts[each] + lasts[each])
        path.add(name)
    return path
