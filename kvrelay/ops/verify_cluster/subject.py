"""The cluster under proof: its workers, the commands in them, and the ways to their ports."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from kvrelay.ops.cluster import Cluster
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.endpoint.api_server import ApiServer
from kvrelay.ops.endpoint.backends import Backend, OnePod, ServicePods
from kvrelay.ops.endpoint.command import serve_service
from kvrelay.ops.endpoint.forward import Forward, forwarded
from kvrelay.ops.verify_cluster.claims import Worker
from kvrelay.planner.asked import Asked, asked
from kvrelay.serve_app import ServeApp
from kvrelay.settings import Deployment

# As the worker groups' metrics-export-port says.
_METRICS_PORT = 8080
_WORKERS = "ray.io/node-type=worker"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Subject:
    """One deployment's cluster, and what its file and serve config say of it."""

    cluster: Cluster
    server: ApiServer
    deployment: Deployment
    app: ServeApp

    @property
    def namespace(self) -> str:
        """Where the workers are."""
        return self.deployment.serving.namespace

    @cached_property
    def plan(self) -> Asked:
        """The engines as the planner sees them. Raises UserError for a model that it can't size."""
        return asked(self.deployment, self.app)

    def workers(self, role: str = "") -> list[Worker]:
        """The worker pods, or those of a role, by name; none that end. Raises ClusterError."""
        pods = self.cluster.list(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=_WORKERS)
        alive = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        found = sorted((Worker.of(pod) for pod in alive), key=lambda worker: worker.name)
        return [worker for worker in found if not role or worker.role == role]

    def run(self, worker: Worker, command: Sequence[str], seconds: float = 30) -> str:
        """What a command in a worker writes. Raises ClusterError."""
        return self.cluster.run(self.namespace, worker.name, worker.container, command, seconds=seconds)

    def delete(self, worker: Worker) -> None:
        """Ends a worker's pod; KubeRay makes a new one. Raises ClusterError."""
        self.cluster.delete(f"/api/v1/namespaces/{self.namespace}/pods/{worker.name}")

    @contextlib.contextmanager
    def endpoint(self, workers: Sequence[Worker]) -> Iterator[Endpoint]:
        """The model's endpoint and the workers' metrics, forwarded to this machine while the context lasts."""
        with contextlib.ExitStack() as stack:
            service = ServicePods(self.cluster, self.namespace, serve_service(self.deployment))
            serve = stack.enter_context(forwarded(Forward(self.server, service)))
            pages = []
            for worker in workers:
                pod = OnePod(self.cluster, Backend(self.namespace, worker.name, _METRICS_PORT))
                pages.append(f"{stack.enter_context(forwarded(Forward(self.server, pod))).url}/metrics")
            yield Endpoint(serve.url, tuple(pages))


class Background(Generic[Found]):
    """A call in a thread of its own, which holds up no exit."""

    def __init__(self, call: Callable[[], Found]) -> None:
        self._call = call
        self._found: list[Found] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found.append(self._call())
        except BaseException as error:
            self._error = error

    def result(self) -> Found:
        """What it gave, once it has. Raises what it raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found[0]
