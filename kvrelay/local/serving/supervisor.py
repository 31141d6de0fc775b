"""The process that owns a serving session: Ray's head, the app, the gateway; what it starts, it ends.

Run as `python -m kvrelay.local.serving.supervisor FOLDER INTERPRETER [LISTENER_FD PORT]...`, inside the session's
namespaces where there are any (it is their process 1 then).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvrelay.local.serving import gateway
from kvrelay.local.serving.containment import SESSION_VARIABLE, end_processes
from kvrelay.local.serving.first_answer import first_answer
from kvrelay.local.serving.session import Phase, Progress, Session, SessionFolder

RAY_PORT = 6379
# Inside its own network namespace a session always finds these free.
INNER_HTTP_PORT = 8000
INNER_METRICS_PORT = 8080
RUN_APP = Path(__file__).with_name("run_app.py")
_PRIVATE_TEMPORARY = "/dev/shm/kvrelay"
# What the app needs is logical: two real cores carry all of it.
_LOGICAL_CPUS = 16
_OBJECT_STORE_BYTES = 200_000_000
_SHUTDOWN_SECONDS = 30.0
_FAILED_STATES = {"DEPLOY_FAILED", "UNHEALTHY"}


class SessionFailedError(Exception):
    """The session can't go on; the text says why, in one line."""


@dataclass(slots=True)
class Supervisor:
    """Runs one session from start to end."""

    folder: SessionFolder
    session: Session
    interpreter: Path
    listeners: list[tuple[socket.socket, int]]

    async def run(self) -> int:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        self._prepare()
        relays = [await gateway.relay(listener, port) for listener, port in self.listeners]
        processes: list[asyncio.subprocess.Process] = []
        serving = asyncio.create_task(self._serve(processes))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        failure = ""
        if serving.done():
            error = serving.exception()
            failure = str(error) if isinstance(error, SessionFailedError) else repr(error)
        serving.cancel()
        self.folder.report(Progress(Phase.STOPPING))
        for server in relays:
            server.close()
        self._keep_logs()
        if not self.session.isolated:
            await self._end(processes, graceful=not failure)
        shutil.rmtree(self.session.temporary, ignore_errors=True)
        if failure:
            self.folder.report(Progress(Phase.FAILED, failure))
            return 1
        self.folder.clear()
        return 0

    def _prepare(self) -> None:
        if self.session.isolated:
            subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            self.session.temporary = _PRIVATE_TEMPORARY
        Path(self.session.temporary).mkdir(parents=True, exist_ok=True)

    @property
    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "VLLM_"))
        }
        return inherited | {
            SESSION_VARIABLE: self.session.id,
            "TMPDIR": self.session.temporary,
            "PYTHONUNBUFFERED": "1",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_enable_worker_prestart": "0",
            "RAY_prestart_worker_first_driver": "0",
            # Ray would end engines for memory that other programs of this machine hold.
            "RAY_memory_monitor_refresh_ms": "0",
            "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS": "0",
        }

    async def _start(self, name: str, *command: str, read: bool = False) -> asyncio.subprocess.Process:
        with (self.folder.logs / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if read else log,
                stderr=log,
                start_new_session=True,
                limit=1 << 20,
            )

    async def _serve(self, processes: list[asyncio.subprocess.Process]) -> None:
        self.folder.report(Progress(Phase.STARTING))
        metrics_port = INNER_METRICS_PORT if self.session.isolated else self.session.metrics_port
        ray = await self._start(
            "ray", str(self.interpreter), "-m", "ray.scripts.scripts", "start", "--head", "--block",
            "--node-ip-address=127.0.0.1", f"--port={RAY_PORT}", "--include-dashboard=false",
            f"--num-cpus={_LOGICAL_CPUS}", "--num-gpus=0", "--disable-usage-stats",
            f"--object-store-memory={_OBJECT_STORE_BYTES}", f"--metrics-export-port={metrics_port}",
            f"--temp-dir={self.session.temporary}/ray",
        )  # fmt: skip
        processes.append(ray)
        await self._wait_for_port(RAY_PORT, ray)
        app = await self._start(
            "app",
            str(self.interpreter),
            str(RUN_APP),
            str(self.folder.config),
            f"127.0.0.1:{RAY_PORT}",
            read=True,
        )
        processes.append(app)
        following = asyncio.create_task(self._follow(app))
        ray_ended = asyncio.create_task(ray.wait())
        await asyncio.wait({following, ray_ended}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            following.result()
        name = "Ray's head" if ray_ended.done() else "the app's driver"
        raise SessionFailedError(f"{name} ended unexpectedly; see {self.folder.logs}")

    async def _wait_for_port(self, port: int, process: asyncio.subprocess.Process) -> None:
        for _ in range(600):
            if process.returncode is not None:
                raise SessionFailedError(f"Ray did not start; see {self.folder.logs / 'ray.log'}")
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.2)
        raise SessionFailedError(f"Ray did not start within 120 s; see {self.folder.logs / 'ray.log'}")

    async def _follow(self, app: asyncio.subprocess.Process) -> None:
        """Turns what the driver says into progress; returns when it says no more."""
        assert app.stdout is not None
        ready: asyncio.Task[None] | None = None
        async for line in app.stdout:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                applications = said.get("applications", {})
                deployments = dict(_deployment_states(applications))
                for name, application in applications.items():
                    if not isinstance(application, dict):
                        continue
                    if application["status"] == "DEPLOY_FAILED":
                        raise SessionFailedError(_deploy_failure(name, application))
                    if application["status"] == "RUNNING" and ready is None:
                        ready = asyncio.create_task(self._probe())
                phase = Phase.LOADING
                if ready is not None:
                    if ready.done():
                        ready.result()
                    phase = Phase.READY if ready.done() else Phase.HANDSHAKE
                self.folder.report(Progress(phase, deployments=deployments))

    async def _probe(self) -> None:
        """The app is ready when it has answered: /v1/models answers long before the engines do."""
        port = INNER_HTTP_PORT if self.session.isolated else self.session.endpoint_port
        while True:
            if await asyncio.to_thread(first_answer, f"http://127.0.0.1:{port}", self.session.model_id):
                break
            await asyncio.sleep(1.0)
        progress = self.folder.progress()
        self.folder.report(Progress(Phase.READY, deployments=progress.deployments if progress else None))

    async def _end(self, processes: list[asyncio.subprocess.Process], graceful: bool) -> None:
        # In namespaces the kernel does this when the supervisor ends. Elsewhere the app goes first: Ray's head,
        # ended alone, would orphan the engines' own processes.
        for process in reversed(processes):
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate() if graceful else process.kill()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _SHUTDOWN_SECONDS)
        await asyncio.to_thread(end_processes, self.session.id)

    def _keep_logs(self) -> None:
        """Copies the logs of Serve and of the engines out of the memory that goes with this session."""
        logs = Path(self.session.temporary, "ray", "session_latest", "logs")
        with contextlib.suppress(OSError):
            for source in (*logs.glob("serve/*.log"), *logs.glob("worker-*.err"), *logs.glob("worker-*.out")):
                if source.stat().st_size:
                    shutil.copyfile(source, self.folder.logs / source.name)


def _deployment_states(applications: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for application in applications.values():
        if isinstance(application, dict):
            for name, details in application["deployments"].items():
                yield name, details["status"]


def _deploy_failure(name: str, application: dict[str, Any]) -> str:
    messages = [details["message"] for details in application["deployments"].values() if details["message"]]
    # Ray's message is a traceback; its last line that is not indented is the error itself.
    lines = "\n".join([*messages, application["message"]]).strip().splitlines()
    errors = [line.strip() for line in lines if line[:1].strip() and "Error" in line]
    return f"the app {name} can't be deployed: {errors[-1] if errors else ' '.join(lines)[-300:]}"


async def _reap_orphans() -> None:
    """As process 1 of its namespace, the supervisor inherits every orphan and must collect it."""
    while True:
        with contextlib.suppress(ChildProcessError, ProcessLookupError):
            while info := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                # asyncio's watcher collects its own children within moments; leave them a turn.
                await asyncio.sleep(0.5)
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, info.si_pid, os.WEXITED | os.WNOHANG)
        await asyncio.sleep(1.0)


async def supervise(arguments: list[str]) -> int:
    folder = SessionFolder(Path(arguments[0]))
    session = folder.session()
    if session is None:
        return 2
    listeners = [
        (socket.socket(fileno=int(descriptor)), int(port))
        for descriptor, port in zip(arguments[2::2], arguments[3::2], strict=True)
    ]
    reaper = asyncio.create_task(_reap_orphans()) if os.getpid() == 1 else None
    try:
        return await Supervisor(folder, session, Path(arguments[1]), listeners).run()
    finally:
        if reaper:
            reaper.cancel()


if __name__ == "__main__":
    sys.exit(asyncio.run(supervise(sys.argv[1:])))
