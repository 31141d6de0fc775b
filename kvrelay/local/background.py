"""Processes that outlive the command that started them: told apart from later ones with their id, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")


def started_at(pid: int) -> int | None:
    """Clock ticks from boot to the start of `pid`, which tells a process from a later one with its id."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def wait_until_up(
    process: subprocess.Popen[bytes], running: Callable[[], Found | None], log: Path, seconds: float
) -> tuple[Found | None, str]:
    """What `running` finds once it finds anything, or None and the last line of `log`: it ended, or took too long."""
    deadline = time.monotonic() + seconds
    while (found := running()) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            said = log.read_text(errors="replace").strip().splitlines()
            return None, said[-1] if said else f"see {log}"
        time.sleep(0.1)
    return found, ""


def end(pid: int, started: int, seconds: float) -> None:
    """Ends the process that began at `started`: SIGTERM, then SIGKILL after `seconds`."""
    deadline, sent = time.monotonic() + seconds, signal.SIGTERM
    os.kill(pid, sent)
    while started_at(pid) == started:
        if time.monotonic() > deadline and sent is not signal.SIGKILL:
            sent = signal.SIGKILL
            os.kill(pid, sent)
        time.sleep(0.1)
