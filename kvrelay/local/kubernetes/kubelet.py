"""One simulated kubelet for all nodes: says that pods run, breaks them on request, removes them when deleted."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import urllib3

from kvrelay.local.kubernetes import pod_status
from kvrelay.local.kubernetes.api import Api, ApiError, Object
from kvrelay.local.kubernetes.network import ClusterNetwork
from kvrelay.local.kubernetes.nodes import EFA, GPU, SimulatedNode, condition
from kvrelay.local.kubernetes.pod_programs import PodPrograms
from kvrelay.local.kubernetes.pod_status import Fault
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.local.kubernetes.watching import Watch

Match = Callable[[Object], bool]

# Pods' addresses; the gateway is 10.244.0.1.
_POD_ADDRESSES = ipaddress.IPv4Network("10.244.0.0/14")
_FIRST_POD = 256


class Kubelet:
    """Follows all pods. Pods that a Program matches really run; the others only look as if they did."""

    def __init__(
        self, api: Api, network: ClusterNetwork, folder: Path, programs: Sequence[Program] = ()
    ) -> None:
        self._api = api
        self._nodes: dict[str, SimulatedNode] = {}
        self._lost: set[str] = set()
        self._faults: list[tuple[Fault, Match]] = []
        self._reported: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._numbers = count(_FIRST_POD)
        self._lock = threading.RLock()
        self._workers = ThreadPoolExecutor(8, thread_name_prefix="kubelet")
        self._pods = Watch(api, "v1", "Pod", self._pod_changed)
        self.programs = PodPrograms(api, network, folder, programs)

    def start(self) -> None:
        self.programs.start()
        self._pods.start()

    def stop(self) -> None:
        self._pods.stop()
        self.programs.stop()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def register(self, node: SimulatedNode) -> None:
        """Makes the node known to the cluster, ready at once."""
        with self._lock:
            self._nodes[node.name] = node
            self._lost.discard(node.name)
        self._api.create(node.manifest())
        self._api.patch(f"/api/v1/nodes/{node.name}/status", {"status": node.status()})

    def lose(self, name: str) -> None:
        """The node's kubelet falls silent: Kubernetes no longer knows how it is, nor do its pods end."""
        with self._lock:
            self._lost.add(name)
        unknown = condition("Ready", None, "NodeStatusUnknown")
        change = {"status": {"conditions": [unknown]}}
        self._api.patch(f"/api/v1/nodes/{name}/status", change, kind="strategic-merge")
        for pod in self._pods.items.values():
            if pod["spec"].get("nodeName") == name:
                # What the node lifecycle controller says of a silent node's pods.
                not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
                self._api.patch(_path(pod) + "/status", not_ready, kind="strategic-merge")

    def remove(self, name: str) -> None:
        """The instance is terminated: the node goes, with its pods."""
        with self._lock:
            self._nodes.pop(name, None)
            self._lost.add(name)
        self._api.delete(f"/api/v1/nodes/{name}")
        for pod in self._pods.items.values():
            if pod["spec"].get("nodeName") == name:
                self._workers.submit(self._remove_pod, pod)

    def break_pods(self, fault: Fault, which: Match) -> None:
        """Every pod that `which` picks fails from now on, those that run too, until `mend`."""
        with self._lock:
            self._faults.append((fault, which))
        self._look_again()

    def mend(self) -> None:
        """Ends all faults."""
        with self._lock:
            self._faults.clear()
        self._look_again()

    def _look_again(self) -> None:
        for pod in self._pods.items.values():
            self._pod_changed(pod, False)

    def _pod_changed(self, pod: Object, gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        if gone:
            self.programs.forget(uid)
            with self._lock:
                self._reported.pop(uid, None)
                self._addresses.pop(uid, None)
            return
        node = pod["spec"].get("nodeName")
        with self._lock:
            if not node or node in self._lost or node not in self._nodes:
                return
            wanted = self._wanted(pod)
            # A program's own thread reports what it does.
            if self._reported.get(uid) == wanted:
                return
            self._reported[uid] = wanted
            address = self._addresses.setdefault(uid, str(_POD_ADDRESSES[next(self._numbers)]))
        self._workers.submit(self._carry_out, pod, wanted, address)

    def _wanted(self, pod: Object) -> str:
        if pod["metadata"].get("deletionTimestamp"):
            return "gone"
        for fault, which in self._faults:
            if which(pod):
                return fault
        if self.programs.program_of(pod):
            return "program"
        owners = pod["metadata"].get("ownerReferences", [])
        return "succeeded" if any(owner["kind"] == "Job" for owner in owners) else "ready"

    def _carry_out(self, pod: Object, wanted: str, address: str) -> None:
        try:
            if wanted == "gone":
                self._remove_pod(pod)
            elif wanted == "program":
                self.programs.run(pod, address)
            else:
                self.programs.forget(pod["metadata"]["uid"])
                self._report(pod, self._status(pod, wanted, address))
                self._plug_devices(pod, wanted)
        except (ApiError, urllib3.exceptions.HTTPError):
            # The pod changed or went meanwhile; its next event brings it here again.
            with self._lock:
                self._reported.pop(pod["metadata"]["uid"], None)

    def _status(self, pod: Object, wanted: str, address: str) -> Object:
        if wanted == "ready":
            return pod_status.running(pod, address, ready=True)
        if wanted == "succeeded":
            return pod_status.succeeded(pod, address)
        return pod_status.failed(pod, address, Fault(wanted))

    def _report(self, pod: Object, status: Object) -> None:
        self._api.patch(_path(pod) + "/status", {"status": status})

    def _remove_pod(self, pod: Object) -> None:
        self.programs.forget(pod["metadata"]["uid"])
        self._api.delete(_path(pod), grace_seconds=0, uid=pod["metadata"]["uid"])

    def _plug_devices(self, pod: Object, wanted: str) -> None:
        """A device plugin that runs on a node makes the node offer its devices; one that does not, does not."""
        if wanted != "ready":
            return
        resource = device_of(pod)
        node = self._nodes.get(pod["spec"]["nodeName"])
        if resource and node and resource in node.devices:
            offer = {resource: node.devices[resource]}
            self._api.patch(
                f"/api/v1/nodes/{node.name}/status", {"status": {"capacity": offer, "allocatable": offer}}
            )


def device_of(pod: Object) -> str | None:
    """The extended resource that this pod's image is the device plugin of."""
    images = [container["image"] for container in pod["spec"]["containers"]]
    if any("efa" in image and "device-plugin" in image for image in images):
        return EFA
    return GPU if any("nvidia" in image and "device-plugin" in image for image in images) else None


def _path(pod: Object) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
