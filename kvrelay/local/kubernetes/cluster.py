"""A local cluster: the control plane, its simulated nodes, and the kubelet that stands in for theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kvrelay.local.kubernetes.api import Api, Endpoint
from kvrelay.local.kubernetes.control_plane import ControlPlane
from kvrelay.local.kubernetes.kubelet import Kubelet
from kvrelay.local.kubernetes.nodes import SimulatedNode
from kvrelay.local.kubernetes.sandbox import Program


class LocalCluster:
    """Context manager. `folder` takes certificates, logs and etcd's data; `programs` really run in pods."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: Iterable[SimulatedNode] = (),
        programs: Sequence[Program] = (),
        audited_users: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        self.plane = ControlPlane(folder, audited_users=audited_users)
        self._nodes = tuple(nodes)
        self._programs = programs
        self._kubelet: Kubelet | None = None

    @property
    def api(self) -> Api:
        """As an administrator."""
        return self.plane.api

    @property
    def endpoint(self) -> Endpoint:
        """What a client outside the cluster needs, such as the kubectl handler."""
        return self.plane.api.endpoint

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def kubelet(self) -> Kubelet:
        assert self._kubelet is not None, "not started"
        return self._kubelet

    def __enter__(self) -> Self:
        self.plane.__enter__()
        try:
            self._kubelet = Kubelet(self.api, self.plane.network, self.folder / "pods", self._programs)
            self._kubelet.start()
            for node in self._nodes:
                self._kubelet.register(node)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every process of the cluster."""
        if self._kubelet:
            self._kubelet.stop()
        self.plane.stop()
