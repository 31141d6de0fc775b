"""Whether this machine can run two vLLM engines on its CPU: one line for each thing that matters."""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3
# Two engines with their workers, Serve's replicas and Ray itself were seen at 7 to 9 GiB.
MEMORY_GIB = 9.0
DISK_GIB = 8.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: what was found, and what would be right if it is not."""

    name: str
    found: str
    fine: bool
    needed: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.found}" + ("" if self.fine else f"; {self.needed}")


def check_machine(folder: Path) -> list[Check]:
    """Looks at the system, the processor, the memory, and the disk that holds `folder`."""
    system, architecture = platform.system(), platform.machine()
    system_check = Check(
        "system",
        f"{system} {architecture}",
        (system, architecture) == ("Linux", "x86_64"),
        "vLLM's CPU engines run on Linux x86_64; a virtual machine or container of that kind will do",
    )
    if not system_check.fine:
        return [system_check]
    return [
        system_check,
        processor_check(Path("/proc/cpuinfo").read_text(), os.cpu_count() or 1),
        memory_check(Path("/proc/meminfo").read_text()),
        disk_check(folder),
    ]


def processor_check(cpuinfo: str, cores: int) -> Check:
    """vLLM's CPU kernels are compiled for AVX2 at least; `cpuinfo` is the text of /proc/cpuinfo."""
    flags: set[str] = set()
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    extension = "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "neither AVX2 nor AVX512"
    return Check(
        "processor",
        f"{cores} cores with {extension}",
        cores >= 2 and "avx2" in flags,
        "two cores with AVX2 or AVX512 are needed",
    )


def memory_check(meminfo: str) -> Check:
    """`meminfo` is the text of /proc/meminfo; what counts is what is free now, without swapping."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024 / GIB
            return Check(
                "memory",
                f"{free:.1f} GiB free",
                free >= MEMORY_GIB,
                f"two engines need {MEMORY_GIB:.0f} GiB; end other programs first",
            )
    return Check("memory", "/proc/meminfo does not say", True)


def disk_check(folder: Path) -> Check:
    existing = next(parent for parent in (folder, *folder.parents) if parent.is_dir())
    free = shutil.disk_usage(existing).free / GIB
    return Check(
        "disk",
        f"{free:.0f} GiB free at {existing}",
        free >= DISK_GIB,
        f"the environment needs up to {DISK_GIB:.0f} GiB",
    )
