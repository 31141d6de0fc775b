"""Puts the pods of final manifests on nodes as Kubernetes' scheduler would, and says why one can't go on a node."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from kvrelay.local.kubernetes.nodes import SimulatedNode

Object = dict[str, Any]


@dataclass(frozen=True)
class Pod:
    """One pod to place, with the labels that its controller gives it."""

    name: str
    labels: dict[str, str]
    spec: Object

    @cached_property
    def requests(self) -> dict[str, Decimal]:
        """What the scheduler reckons with: the containers' sum, or an init container's where that is more."""
        total: dict[str, Decimal] = {"pods": Decimal(1)}
        for container in self.spec["containers"]:
            for resource, amount in _requests(container).items():
                total[resource] = total.get(resource, Decimal(0)) + amount
        for container in self.spec.get("initContainers", ()):
            for resource, amount in _requests(container).items():
                total[resource] = max(total.get(resource, Decimal(0)), amount)
        return total

    @property
    def host_ports(self) -> set[int]:
        """Ports of the node itself that it takes."""
        ports = [port for container in self.spec["containers"] for port in container.get("ports", ())]
        if self.spec.get("hostNetwork"):
            return {port["containerPort"] for port in ports}
        return {port["hostPort"] for port in ports if "hostPort" in port}

    @property
    def keeps_away_from(self) -> list[Object]:
        """Its required anti-affinity terms."""
        affinity = self.spec.get("affinity", {}).get("podAntiAffinity", {})
        terms: list[Object] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        assert all(term["topologyKey"] == "kubernetes.io/hostname" for term in terms)
        return terms


@dataclass
class Node:
    """One node and the pods on it."""

    simulated: SimulatedNode
    pods: list[Pod] = field(default_factory=list)

    @cached_property
    def _manifest(self) -> Object:
        return self.simulated.manifest()

    @cached_property
    def _offered(self) -> dict[str, Decimal]:
        offered = self.simulated.status()["allocatable"]
        return {resource: parse_quantity(amount) for resource, amount in offered.items()}

    def refusals(self, pod: Pod) -> set[str]:
        """Why the pod can't go here: `selector`, `taint`, `anti-affinity`, `host port`, or a resource's name."""
        found = set()
        labels = self._manifest["metadata"]["labels"]
        if any(labels.get(key) != value for key, value in pod.spec.get("nodeSelector", {}).items()):
            found.add("selector")
        tolerations = pod.spec.get("tolerations", [])
        if not all(
            any(_tolerates(each, taint) for each in tolerations) for taint in self._manifest["spec"]["taints"]
        ):
            found.add("taint")
        # An anti-affinity counts in both directions.
        if any(_keeps_away(one, other) for here in self.pods for one, other in ((pod, here), (here, pod))):
            found.add("anti-affinity")
        if any(pod.host_ports & here.host_ports for here in self.pods):
            found.add("host port")
        for resource, amount in pod.requests.items():
            used = sum(here.requests.get(resource, Decimal(0)) for here in self.pods)
            if used + amount > self._offered.get(resource, Decimal(0)):
                found.add(resource)
        return found


def place(pods: Iterable[Pod], nodes: list[Node]) -> list[str]:
    """Puts each pod on the first node that takes it; returns a line for each that no node takes."""
    left = []
    for pod in pods:
        home = next((node for node in nodes if not node.refusals(pod)), None)
        if home:
            home.pods.append(pod)
        else:
            refusals = {node.simulated.name: node.refusals(pod) for node in nodes}
            left.append(f"{pod.name}: {refusals}")
    return left


def daemons(objects: Iterable[Object], nodes: list[Node]) -> Iterator[Pod]:
    """A pod for each DaemonSet and node that it runs on, held to that node."""
    for each in objects:
        if each["kind"] != "DaemonSet":
            continue
        pod = _of_template(each["metadata"]["name"], each["spec"]["template"])
        for node in nodes:
            if not node.refusals(pod) & {"selector", "taint"}:
                hostname = {"kubernetes.io/hostname": node.simulated.name}
                selector = {**pod.spec.get("nodeSelector", {}), **hostname}
                yield Pod(
                    f"{pod.name} on {node.simulated.name}", pod.labels, {**pod.spec, "nodeSelector": selector}
                )


def replicas(objects: Iterable[Object]) -> Iterator[Pod]:
    """The pods of Deployments."""
    for each in objects:
        if each["kind"] == "Deployment":
            for _ in range(each["spec"]["replicas"]):
                yield _of_template(each["metadata"]["name"], each["spec"]["template"])


def ray_pods(ray_service: Object) -> Iterator[Pod]:
    """The pods that KubeRay makes of a RayService's cluster, with its labels."""
    cluster = ray_service["spec"]["rayClusterConfig"]
    yield _ray_pod("head", "headgroup", cluster["headGroupSpec"])
    for group in cluster["workerGroupSpecs"]:
        for index in range(group["replicas"] * group["numOfHosts"]):
            yield _ray_pod(f"{group['groupName']} {index}", group["groupName"], group)


def _ray_pod(name: str, group: str, spec: Object) -> Pod:
    pod = _of_template(name, spec["template"])
    return Pod(name, {**pod.labels, "ray.io/group": group, "ray.io/is-ray-node": "yes"}, pod.spec)


def _of_template(name: str, template: Object) -> Pod:
    return Pod(name, dict(template["metadata"].get("labels", {})), copy.deepcopy(template["spec"]))


def _requests(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources", {})
    # A limit without a request is a request too.
    return {
        name: parse_quantity(amount)
        for name, amount in {**resources.get("limits", {}), **resources.get("requests", {})}.items()
    }


def _tolerates(toleration: Object, taint: Object) -> bool:
    same_key = toleration.get("key") in (None, taint["key"])
    same_effect = toleration.get("effect") in (None, taint["effect"])
    exists = toleration.get("operator") == "Exists"
    return same_key and same_effect and (exists or toleration.get("value") == taint["value"])


def _keeps_away(pod: Pod, other: Pod) -> bool:
    return any(_selects(term["labelSelector"], other.labels) for term in pod.keeps_away_from)


def _selects(selector: Object, labels: dict[str, str]) -> bool:
    terms = selector.get("matchExpressions", [])
    assert all(term["operator"] == "In" for term in terms)
    wanted = selector.get("matchLabels", {})
    return (
        all(labels.get(term["key"]) in term["values"] for term in terms) and wanted.items() <= labels.items()
    )
