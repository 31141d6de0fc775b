"""Child processes that end with their parent, write a log each, and are stopped by their own id."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvrelay.errors import UserError

_LOG_TAIL = 2_000


class ProcessFailedError(UserError):
    """A part of the local cluster ended or did not become ready."""


class Child:
    """One running process. `command` must not fork into the background."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            # setpriv: the kernel ends the child when this process dies, however it dies.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def memory_mib(self) -> float:
        """Resident memory."""
        return memory_mib(self.pid)

    def wait_until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Returns once `ready` says so. Raises ProcessFailedError with the end of the log when it never does."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.exit_code is not None:
                raise ProcessFailedError(f"{self.name} ended with {self.exit_code}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise ProcessFailedError(
                    f"{self.name} is not ready after {seconds:.0f} s: {self.last_words()}"
                )
            time.sleep(0.1)

    def stop(self, seconds: float = 10) -> None:
        """Asks it to end, and ends it after `seconds`."""
        if self.exit_code is None:
            self._process.terminate()
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """Ends it at once."""
        if self.exit_code is None:
            os.kill(self.pid, signal.SIGKILL)
        self._process.wait()

    def last_words(self) -> str:
        """The last lines of its log, on one line."""
        text = self.log.read_text(errors="replace")[-_LOG_TAIL:]
        return " | ".join(line.strip() for line in text.splitlines()[-3:]) or "it wrote nothing"


def memory_mib(pid: int) -> float:
    """Resident memory of a process; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return 0.0
    found = re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0
