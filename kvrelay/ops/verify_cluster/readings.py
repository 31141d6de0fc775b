"""What the probes' outputs say: one pure reader each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvrelay.ops.cluster import ClusterError

# Between two prompts asked one after the other nothing moves for longer than this.
_BURST_GAP_S = 0.05


@dataclass(frozen=True, slots=True)
class Devices:
    """The EFA devices of a pod. `ports` maps a device's name to its state, as sysfs says it: `4: ACTIVE`."""

    ports: dict[str, str]
    nodes: tuple[str, ...]

    @property
    def active(self) -> list[str]:
        """Devices whose port is up."""
        return [name for name, state in self.ports.items() if state.endswith("ACTIVE")]


@dataclass(frozen=True, slots=True)
class Backends:
    """NIXL's backends, by its own logs."""

    instantiated: frozenset[str]
    failed: tuple[str, ...]
    """What else it said: a plugin that is missing or did not load."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process with a transfer library in its memory."""

    pid: int
    name: str
    mapped: tuple[str, ...]

    def has(self, part: str) -> bool:
        """Whether a mapped file's path holds `part`."""
        return any(part in path for path in self.mapped)


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters of all EFA ports of a pod at one moment. Bytes since the driver's start."""

    seconds: float
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class Traffic:
    """What EFA's counters did over a while. No samples: the pod sees no EFA port."""

    samples: tuple[Sample, ...]

    @property
    def received(self) -> int:
        """Bytes in."""
        return self.samples[-1].received - self.samples[0].received if self.samples else 0

    @property
    def sent(self) -> int:
        """Bytes out."""
        return self.samples[-1].sent - self.samples[0].sent if self.samples else 0

    @property
    def gb_per_s(self) -> float | None:
        """10^9 bytes a second while bytes came in; None where too little moved to tell.

        Each burst counts from the last sample before it. The driver renews its figures every 10 ms, so that a short
        burst looks slower than it was.
        """
        moved, took = 0, 0.0
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            step = after.seconds - before.seconds
            if after.received > before.received:
                moved += after.received - before.received
                # After a pause only the driver's own step is the transfer's.
                took += step if step < _BURST_GAP_S else _DRIVER_S
        return moved / took / 1e9 if took >= 2 * _DRIVER_S else None


_DRIVER_S = 0.01


@dataclass(frozen=True, slots=True)
class Weights:
    """How an engine got its weights; seconds, None where the logs don't say."""

    loading_s: float | None
    downloading_s: float | None


def read_devices(output: str) -> Devices:
    """Of the probe DEVICES."""
    ports: dict[str, str] = {}
    nodes: list[str] = []
    for line in output.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "port":
            name, _, state = rest.partition(" ")
            ports[name] = state.strip()
        elif kind == "node":
            nodes.append(rest.strip())
    return Devices(ports, tuple(nodes))


def read_backends(output: str) -> Backends:
    """Of the probe BACKENDS."""
    said = [line.strip().partition(" ")[2] for line in output.splitlines() if line.strip()]
    found = [re.fullmatch(r"Backend ([A-Z_]+) was instantiated", line) for line in said]
    return Backends(
        frozenset(each[1] for each in found if each),
        tuple(line for line, each in zip(said, found, strict=True) if not each),
    )


def read_libraries(output: str) -> list[Process]:
    """Of the probe LIBRARIES."""
    processes = []
    for line in output.splitlines():
        pid, _, rest = line.partition(" ")
        name, _, mapped = rest.partition(" ")
        if pid.isdigit():
            processes.append(Process(int(pid), name, tuple(mapped.split())))
    return processes


def read_traffic(output: str) -> Traffic:
    """Of the probe `watch_ports`. Raises ClusterError when it is cut off."""
    samples = []
    for line in output.splitlines():
        parts = line.split()
        if len(parts) != 3 or not all(part.isdigit() for part in parts):
            raise ClusterError(f"the counters' watch gave {line[:80]!r}, not three numbers")
        samples.append(Sample(int(parts[0]) / 1e9, int(parts[1]), int(parts[2])))
    return Traffic(tuple(samples))


def read_weights(output: str) -> Weights:
    """Of the probe WEIGHTS: the slowest engine of the pod."""
    return Weights(
        _longest(r"Loading weights took ([\d.]+) seconds", output),
        _longest(r"Time spent downloading weights for \S+: ([\d.]+) seconds", output),
    )


def _longest(pattern: str, output: str) -> float | None:
    found: Sequence[str] = re.findall(pattern, output)
    return max(map(float, found), default=None)
