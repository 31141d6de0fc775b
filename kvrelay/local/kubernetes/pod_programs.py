"""Runs the pods that really run: starts them, asks their readiness probes, restarts and ends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3

from kvrelay.local.kubernetes import pod_status
from kvrelay.local.kubernetes.api import Api, ApiError, Object
from kvrelay.local.kubernetes.network import ClusterNetwork
from kvrelay.local.kubernetes.processes import ProcessFailedError
from kvrelay.local.kubernetes.sandbox import Program, Sandbox
from kvrelay.local.kubernetes.watching import Watch

_PERIOD_SECONDS = 0.5
_RESTART_SECONDS = 2.0


@dataclass
class _Entry:
    pod: Object
    address: str
    program: Program
    sandbox: Sandbox | None = None
    restarts: int = 0
    not_before: float = 0.0
    reported: tuple[bool, int] | None = None


class PodPrograms:
    """One thread looks after all of them; a network of its own is needed, else nothing matches."""

    def __init__(self, api: Api, network: ClusterNetwork, folder: Path, programs: Sequence[Program]) -> None:
        self._api = api
        self._network = network
        self._folder = folder
        self._programs = tuple(programs) if network.isolated else ()
        self._entries: dict[str, _Entry] = {}
        self._ended: list[Sandbox] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._services = Watch(api, "v1", "Service", lambda service, gone: None)
        self._thread = threading.Thread(target=self._look_after, name="pod-programs", daemon=True)

    def start(self) -> None:
        if self._programs:
            self._services.start()
            self._thread.start()

    def stop(self) -> None:
        """Ends every program."""
        self._stopped.set()
        self._services.stop()
        if self._thread.is_alive():
            self._thread.join(60)
        with self._lock:
            sandboxes = [entry.sandbox for entry in self._entries.values() if entry.sandbox] + self._ended
            self._entries.clear()
        for sandbox in sandboxes:
            sandbox.stop()

    def program_of(self, pod: Object) -> Program | None:
        return next((program for program in self._programs if program.matches(pod)), None)

    def run(self, pod: Object, address: str) -> None:
        """Starts the pod's program soon; nothing where it already runs."""
        program = self.program_of(pod)
        if program:
            with self._lock:
                self._entries.setdefault(pod["metadata"]["uid"], _Entry(pod, address, program))

    def forget(self, uid: str) -> None:
        """Ends the pod's program, if it has one."""
        with self._lock:
            entry = self._entries.pop(uid, None)
        if entry and entry.sandbox:
            entry.sandbox.stop()

    def running(self, name: str) -> list[tuple[Object, Sandbox]]:
        """The pods that run the program of that name."""
        with self._lock:
            return [
                (entry.pod, entry.sandbox)
                for entry in self._entries.values()
                if entry.sandbox and entry.program.name == name
            ]

    def _look_after(self) -> None:
        while not self._stopped.wait(_PERIOD_SECONDS):
            with self._lock:
                entries = dict(self._entries)
            self._name_services(entries)
            for uid, entry in entries.items():
                try:
                    self._advance(uid, entry)
                except (ApiError, urllib3.exceptions.HTTPError, OSError, ProcessFailedError) as error:
                    self._note(entry, str(error))

    def _advance(self, uid: str, entry: _Entry) -> None:
        if entry.sandbox and entry.sandbox.exit_code is not None:
            self._note(entry, f"ended with {entry.sandbox.exit_code}: {entry.sandbox.last_words()}")
            entry.sandbox = None
            entry.restarts += 1
            entry.not_before = time.monotonic() + _RESTART_SECONDS
            self._report(entry, ready=False)
        if not entry.sandbox and time.monotonic() >= entry.not_before:
            # Not to be tried in every round where it can't start.
            entry.not_before = time.monotonic() + _RESTART_SECONDS
            name = entry.pod["metadata"]["name"]
            sandbox = Sandbox(
                self._api, self._network, self._folder / name, entry.pod, entry.address, entry.program
            )
            with self._lock:
                entry.sandbox = sandbox
                kept = uid in self._entries
            if not kept:
                sandbox.stop()
                return
            self._report(entry, ready=False)
        if entry.sandbox:
            self._report(entry, ready=entry.sandbox.ready())

    def _report(self, entry: _Entry, *, ready: bool) -> None:
        if entry.reported == (ready, entry.restarts):
            return
        metadata = entry.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        status = pod_status.running(entry.pod, entry.address, ready=ready, restarts=entry.restarts)
        self._api.patch(path, {"metadata": {"uid": metadata["uid"]}, "status": status})
        entry.reported = (ready, entry.restarts)

    def _name_services(self, entries: dict[str, _Entry]) -> None:
        """Cluster DNS: a service's name leads to the first running pod that its selector picks."""
        names: dict[str, str] = {}
        for service in self._services.items.values():
            selector = service["spec"].get("selector")
            metadata = service["metadata"]
            for entry in entries.values():
                labels = entry.pod["metadata"].get("labels", {})
                if (
                    selector
                    and entry.pod["metadata"]["namespace"] == metadata["namespace"]
                    and selector.items() <= labels.items()
                ):
                    names[f"{metadata['name']}.{metadata['namespace']}.svc.cluster.local"] = entry.address
        self._network.name_services(names)

    def _note(self, entry: _Entry, text: str) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "programs.log").open("a") as log:
            log.write(f"{pod_status.now()} {entry.pod['metadata']['name']}: {text}\n")
