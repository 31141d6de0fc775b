"""Keeps what Ray starts in namespaces of its own: no port seen from outside, and nothing left when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kvrelay.local.background import started_at

# Private network, process ids, shared memory and mounts. The kernel ends every process in a process namespace
# with its first one, and frees a private /dev/shm with the last: also after kill -9.
_NAMESPACES = ("--net", "--pid", "--ipc", "--mount", "--fork", "--kill-child=KILL", "--mount-proc")
_AS_ROOT_INSIDE = ("--user", "--map-root-user")
_TRIAL = "mount -t tmpfs none /dev/shm && ip link set lo up"

SESSION_VARIABLE = "KVRELAY_SERVING_SESSION"


@dataclass(frozen=True, slots=True)
class Containment:
    """How a session is held: the command that enters its namespaces, empty where none can be made."""

    command: tuple[str, ...]

    @property
    def isolated(self) -> bool:
        return bool(self.command)

    def describe(self) -> str:
        if self.isolated:
            return (
                "own network, process and memory namespaces; only the ports below are reachable, on loopback"
            )
        return (
            "no namespaces can be made here (needs Linux, and root or unprivileged user namespaces): "
            "Ray's internal ports listen on every address of this machine; close them with a firewall"
        )


@cache
def containment() -> Containment:
    """The best this machine allows, found by trying."""
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        return Containment(())
    for privileges in ((), _AS_ROOT_INSIDE) if os.geteuid() == 0 else (_AS_ROOT_INSIDE,):
        command = (unshare, *privileges, *_NAMESPACES)
        trial = subprocess.run([*command, "sh", "-c", _TRIAL], capture_output=True, check=False, timeout=20)
        if trial.returncode == 0:
            return Containment(command)
    return Containment(())


def session_processes(session_id: str) -> list[int]:
    """The ids of all processes that carry this session's mark in their environment."""
    mark = f"{SESSION_VARIABLE}={session_id}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0") and started_at(int(folder.name)) is not None:
            found.append(int(folder.name))
    return found


def end_processes(session_id: str, grace: float = 5.0) -> int:
    """Ends this session's processes, by their ids: SIGTERM, then SIGKILL after `grace` seconds. Returns how many."""
    ended: set[int] = set()
    deadline = time.monotonic() + grace
    while remaining := set(session_processes(session_id)) - {os.getpid()}:
        force = time.monotonic() > deadline
        if time.monotonic() > deadline + 10:
            break
        for pid in remaining if force else remaining - ended:
            try:
                os.kill(pid, signal.SIGKILL if force else signal.SIGTERM)
            except ProcessLookupError:
                continue
        ended |= remaining
        time.sleep(0.1)
    return len(ended)
