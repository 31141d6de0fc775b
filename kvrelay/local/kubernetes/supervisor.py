"""`kvrelay local cluster up` in the background: one process that holds a cluster until it is told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

from kvrelay.errors import UserError
from kvrelay.local.background import end, started_at, wait_until_up
from kvrelay.local.kubernetes.api import Endpoint
from kvrelay.local.kubernetes.cluster import LocalCluster
from kvrelay.local.kubernetes.nodes import nodes_of
from kvrelay.local.kubernetes.processes import ProcessFailedError
from kvrelay.local.kubernetes.programs import kuberay_operator, ray_head
from kvrelay.local.kubernetes.ray_environment import FOLDER, is_made
from kvrelay.settings import read_deployment

DEFAULT_FOLDER = Path(".kvrelay") / "cluster"


@dataclass(frozen=True)
class Running:
    """A cluster that runs: who holds it, where it answers, and what it can't do here."""

    pid: int
    started: int
    """The kernel's start time of `pid`, so that another process with the same id is never taken for it."""
    url: str
    kubeconfig: str
    nodes: int
    isolated: bool
    """Whether pods can really run: the KubeRay operator and Ray heads."""

    def endpoint(self) -> Endpoint:
        """How a client reaches it as an administrator."""
        config = json.loads(Path(self.kubeconfig).read_text())
        authority = Path(config["clusters"][0]["cluster"]["certificate-authority"])
        return Endpoint(self.url, authority.read_text(), config["users"][0]["user"]["token"])


def running(folder: Path = DEFAULT_FOLDER) -> Running | None:
    """The cluster of that folder, or None where none runs."""
    state = folder / "state.json"
    if not state.exists():
        return None
    found = Running(**json.loads(state.read_text()))
    return found if started_at(found.pid) == found.started else None


def up(deployment: Path, folder: Path = DEFAULT_FOLDER, seconds: float = 180) -> Running:
    """Starts a cluster with the deployment's nodes; the one that runs already is returned as it is."""
    if found := running(folder):
        return found
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "kvrelay.local.kubernetes.supervisor", str(folder), str(deployment)]
    log = folder / "supervisor.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    found, said = wait_until_up(process, lambda: running(folder), log, seconds)
    if found is None:
        raise ProcessFailedError(f"the local cluster did not start: {said}")
    return found


def down(folder: Path = DEFAULT_FOLDER, seconds: float = 60) -> bool:
    """Ends the cluster of that folder; False where none ran."""
    found = running(folder)
    if not found:
        return False
    end(found.pid, found.started, seconds)
    (folder / "state.json").unlink(missing_ok=True)
    return True


def _hold(folder: Path, deployment: Path) -> None:
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: ended.set())
    nodes = nodes_of(read_deployment(deployment).deployment)
    programs = [kuberay_operator(), *([ray_head(FOLDER)] if is_made() else [])]
    with LocalCluster(folder.resolve() / f"run-{os.getpid()}", nodes=nodes, programs=programs) as cluster:
        state = Running(
            pid=os.getpid(),
            started=started_at(os.getpid()) or 0,
            url=cluster.endpoint.url,
            kubeconfig=str(cluster.kubeconfig),
            nodes=len(nodes),
            isolated=cluster.plane.network.isolated,
        )
        unfinished = folder / "state.json.new"
        unfinished.touch(mode=0o600)
        unfinished.write_text(json.dumps(asdict(state), indent=1))
        unfinished.rename(folder / "state.json")
        ended.wait()


def main() -> None:
    """Holds the cluster of the folder given first, with the nodes of the deployment file given second."""
    try:
        _hold(Path(sys.argv[1]), Path(sys.argv[2]))
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
