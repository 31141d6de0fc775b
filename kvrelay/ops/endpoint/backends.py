"""The pods that a connection may be forwarded to: those that are ready behind a Service, or one by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kvrelay.ops.cluster import Cluster, ClusterError


@dataclass(frozen=True, slots=True)
class Backend:
    """One pod's port."""

    namespace: str
    pod: str
    port: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.namespace}/{self.pod}:{self.port}"


class NoBackendError(ClusterError):
    """No pod can be forwarded to now; may change by itself."""


class Backends(Protocol):
    """Where a connection may go. Asks the cluster anew at each call."""

    def ready(self) -> list[Backend]:
        """At least one. Raises NoBackendError where there is none, and ClusterError."""
        ...

    def is_gone(self, backend: Backend) -> bool:
        """Whether its pod is no more: a pod that ends still finishes what it began. Raises ClusterError."""
        ...


class _OfCluster:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def is_gone(self, backend: Backend) -> bool:
        try:
            self._cluster.get(f"/api/v1/namespaces/{backend.namespace}/pods/{backend.pod}")
        except ClusterError as error:
            if error.status == 404:
                return True
            raise
        return False


class ServicePods(_OfCluster):
    """The ready pods of a Service, by its endpoint slices, which name each pod's real port."""

    def __init__(self, cluster: Cluster, namespace: str, service: str, port_name: str = "serve") -> None:
        super().__init__(cluster)
        self._namespace = namespace
        self._service = service
        self._port_name = port_name

    def ready(self) -> list[Backend]:
        """In the order of their names."""
        slices = self._cluster.list(
            f"/apis/discovery.k8s.io/v1/namespaces/{self._namespace}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={self._service}",
        )
        places = {place for each in slices for place in _ready(each, self._port_name)}
        if not places:
            raise NoBackendError(_why_none(self._cluster, self._namespace, self._service, slices))
        return [Backend(self._namespace, pod, port) for pod, port in sorted(places)]


class OnePod(_OfCluster):
    """One pod's port, ready or not."""

    def __init__(self, cluster: Cluster, backend: Backend) -> None:
        super().__init__(cluster)
        self._backend = backend

    def ready(self) -> list[Backend]:
        """Just that one."""
        if self.is_gone(self._backend):
            raise NoBackendError(f"there is no pod {self._backend.namespace}/{self._backend.pod}")
        return [self._backend]


def _ready(found: dict[str, Any], port_name: str) -> list[tuple[str, int]]:
    ports = found.get("ports") or []
    named = [each["port"] for each in ports if each.get("name") == port_name] or [
        each["port"] for each in ports
    ]
    pods = [
        each["targetRef"]["name"]
        for each in found.get("endpoints") or ()
        if (each.get("targetRef") or {}).get("kind") == "Pod" and _is_ready(each.get("conditions") or {})
    ]
    return [(pod, int(named[0])) for pod in pods] if named else []


def _is_ready(conditions: dict[str, Any]) -> bool:
    # The API says of `ready`: where it is not known, it should be taken for true.
    return conditions.get("ready") is not False and not conditions.get("terminating")


def _why_none(cluster: Cluster, namespace: str, service: str, slices: list[dict[str, Any]]) -> str:
    pods = sum(len(each.get("endpoints") or ()) for each in slices)
    if pods:
        return f"none of the {pods} pods behind {namespace}/{service} is ready; kvrelay status says why"
    try:
        cluster.get(f"/api/v1/namespaces/{namespace}/services/{service}")
    except ClusterError as error:
        if error.status != 404:
            raise
        return f"there is no Service {namespace}/{service} yet; it comes with the model: kvrelay wait"
    return f"no pod is behind {namespace}/{service} yet; kvrelay wait follows the model's start"
