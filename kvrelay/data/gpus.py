"""GPUs by what bounds serving on them: memory, memory bandwidth, tensor throughput."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvrelay.data.instances import InstanceGpus
from kvrelay.data.reading import load
from kvrelay.data.unknown import unknown_name


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. Bandwidth in 10^9 bytes a second, throughput in 10^12 operations a second, dense."""

    kind: str
    memory_mib: int
    gb_per_s: float
    tflops: Mapping[str, float]
    """By width: `bf16` (fp16 is the same) and, where the hardware has it, `fp8`."""
    ray_accelerator: str | None
    """What `accelerator_type` in a Ray Serve config calls it; None where Ray has no name for it."""


def gpu(gpus: InstanceGpus) -> Gpu:
    """The GPU that an instance type holds. Two sizes of one kind (A100) differ by their memory."""
    for each in all_gpus():
        if (each.kind, each.memory_mib) == (gpus.kind, gpus.memory_mib):
            return each
    named = f"{gpus.kind} ({gpus.memory_mib} MiB)"
    known = (f"{each.kind} ({each.memory_mib} MiB)" for each in all_gpus())
    raise unknown_name("GPU", named, known, "kvrelay/data/gpus.yaml")


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """Every GPU known."""
    return tuple(_parse(entry) for entry in load("gpus.yaml"))


def _parse(entry: Mapping[str, Any]) -> Gpu:
    return Gpu(entry["kind"], entry["memory_mib"], entry["gb_per_s"], entry["tflops"], entry.get("ray"))
