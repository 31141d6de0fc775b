"""Starts, follows and stops the serving session of a folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kvrelay.errors import UserError
from kvrelay.local.background import started_at
from kvrelay.local.serving import gateway
from kvrelay.local.serving.containment import (
    SESSION_VARIABLE,
    containment,
    end_processes,
)
from kvrelay.local.serving.session import Phase, Progress, Session, SessionFolder
from kvrelay.local.serving.supervisor import INNER_HTTP_PORT, INNER_METRICS_PORT
from kvrelay.ops.endpoint import ANNOUNCED

# Seen for two engines, their workers, three Serve replicas and Ray's own processes: 7 to 9.
MEMORY_NEEDED_GIB = 9
_STOP_SECONDS = 90.0


class ServingError(UserError):
    """The local app can't be started, or ended by itself."""

    exit_code = 1


def begin(
    folder: SessionFolder,
    config: dict[str, Any],
    model_id: str,
    interpreter: Path,
    endpoint_port: int,
    metrics_port: int,
) -> Session:
    """Starts the supervisor for a rendered Ray Serve config and returns while it works. Raises ServingError."""
    running = folder.session()
    if running is not None and running.alive:
        raise ServingError(
            f"already serving {running.model_id} at {running.url}; `kvrelay local stop` ends that session first"
        )
    clear_stale(folder)
    available = _available_memory_gib()
    if available < MEMORY_NEEDED_GIB:
        raise ServingError(
            f"{available:.1f} GiB of memory are free and two engines need {MEMORY_NEEDED_GIB} GiB; "
            "end other programs first"
        )
    held = containment()
    listeners = [_listen(endpoint_port, "--port"), _listen(metrics_port, "--metrics-port")]
    if not held.isolated:
        # Without a network namespace Ray binds the two ports itself.
        for listener in listeners:
            listener.close()
        listeners = []
    session = Session(
        id=secrets.token_hex(8),
        config=str(folder.config),
        model_id=model_id,
        endpoint_port=endpoint_port,
        metrics_port=metrics_port,
        isolated=held.isolated,
        temporary="" if held.isolated else tempfile.mkdtemp(prefix="kvrelay-"),
    )
    inner_port = INNER_HTTP_PORT if held.isolated else endpoint_port
    config = config | {"http_options": {"host": "127.0.0.1", "port": inner_port}}
    shutil.rmtree(folder.logs, ignore_errors=True)
    folder.logs.mkdir(parents=True, exist_ok=True)
    folder.config.write_text(yaml.safe_dump(config, sort_keys=False))
    folder.save(session)
    folder.report(Progress(Phase.STARTING))
    relays: list[str] = []
    for listener, port in zip(listeners, (INNER_HTTP_PORT, INNER_METRICS_PORT), strict=False):
        relays += [str(listener.fileno()), str(port)]
    with (folder.logs / "supervisor.log").open("ab") as log:
        process = subprocess.Popen(
            [
                *held.command, sys.executable, "-m", "kvrelay.local.serving.supervisor",
                str(folder.root), str(interpreter), *relays,
            ],
            env=os.environ | {SESSION_VARIABLE: session.id, "PYTHONPATH": str(Path(__file__).parents[3])},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            pass_fds=[listener.fileno() for listener in listeners],
        )  # fmt: skip
    for listener in listeners:
        listener.close()
    session.supervisor = _child_of(process) if held.isolated else process.pid
    session.supervisor_started = started_at(session.supervisor) or 0
    folder.save(session)
    return session


def follow(folder: SessionFolder, session: Session) -> Iterator[Progress]:
    """Yields each change of progress until the app is ready. Raises ServingError when it can't be."""
    last: Progress | None = None
    while True:
        alive = session.alive
        progress = folder.progress()
        if progress is not None and progress != last:
            if progress.phase is Phase.FAILED:
                folder.clear()
                raise ServingError(progress.detail)
            last = progress
            if progress.phase is Phase.READY:
                session.endpoint.announce(folder.root.parent / ANNOUNCED.name)
            yield progress
            if progress.phase is Phase.READY:
                return
        if not alive:
            clear_stale(folder)
            raise ServingError(f"the session ended unexpectedly; see {folder.logs}")
        time.sleep(0.3)


def stop(folder: SessionFolder) -> bool:
    """Ends the session and all it started. Returns whether there was one running."""
    session = folder.session()
    if session is None:
        return False
    was_alive = session.alive
    if was_alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(session.supervisor, signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        while session.alive and time.monotonic() < deadline:
            time.sleep(0.2)
        if session.alive:
            os.kill(session.supervisor, signal.SIGKILL)
    clear_stale(folder)
    return was_alive


def clear_stale(folder: SessionFolder) -> None:
    """Removes what a session that no longer runs has left: processes, temporary files, its own record."""
    session = folder.session()
    if session is None or session.alive:
        return
    end_processes(session.id)
    if session.temporary:
        shutil.rmtree(session.temporary, ignore_errors=True)
    folder.clear()


def _listen(port: int, option: str) -> Any:
    try:
        return gateway.listen_on_loopback(port)
    except OSError as error:
        raise ServingError(
            f"port {port} on 127.0.0.1 is not free ({error.strerror}); choose another with {option}"
        ) from None


def _available_memory_gib() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024 / 1024
    return 0.0


def _child_of(parent: subprocess.Popen[bytes]) -> int:
    """The first process inside the namespaces: the child of the `unshare` that made them."""
    for _ in range(100):
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent.pid:
                    return int(stat.parent.name)
        if parent.poll() is not None:
            break
        time.sleep(0.05)
    raise ServingError("the session's namespaces could not be made; see the supervisor's log")
