"""Kubernetes manifests as rules see them: Ray's objects, pod templates and the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kvrelay.rules.value import Value

GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")
_FACTORS = {
    None: 1.0,
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def quantity(value: Value) -> float | None:
    """A Kubernetes quantity such as `"5120Mi"` as a number, or None when it is none."""
    match = _QUANTITY.fullmatch(value.scalar_text or "")
    return float(match[1]) * _FACTORS[match[2]] if match and len(match[1]) < 30 else None


@dataclass(frozen=True)
class Container:
    """One container of a pod."""

    value: Value

    @property
    def image(self) -> Value:
        return self.value["image"]

    def limit(self, resource: str) -> Value:
        """What it may use of a resource; missing when the resource isn't limited."""
        return self.value.at("resources", "limits", resource)

    def request(self, resource: str) -> Value:
        """What it asks for of a resource."""
        return self.value.at("resources", "requests", resource)

    def count(self, resource: str) -> int:
        """How many of an extended resource, as GPUs, it gets."""
        return int(quantity(self.limit(resource)) or 0)

    def environment(self, name: str) -> Value:
        """The value of an environment variable; missing when it isn't set, or comes from elsewhere."""
        found = Value(self.value.document, (*self.value.path, "env"))
        for entry in self.value["env"].items():
            if entry["name"].text == name:
                found = entry["value"]
        return found

    def names_variable(self, name: str) -> bool:
        """Whether an environment variable is set, be it from a secret."""
        return any(entry["name"].text == name for entry in self.value["env"].items())

    @property
    def is_privileged(self) -> bool:
        return self.value.at("securityContext", "privileged").is_true


@dataclass(frozen=True)
class Pod:
    """A pod template of any object that makes pods."""

    template: Value

    @property
    def spec(self) -> Value:
        return self.template["spec"]

    @cached_property
    def containers(self) -> list[Container]:
        return [Container(value) for value in self.spec["containers"].items()]

    @property
    def all_containers(self) -> list[Container]:
        """Init containers too."""
        return [Container(value) for value in self.spec["initContainers"].items()] + self.containers

    def count(self, resource: str) -> int:
        """How many of an extended resource its containers get together."""
        return self._devices.get(resource, 0)

    @cached_property
    def _devices(self) -> dict[str, int]:
        devices = (GPU, EFA)
        return {name: sum(container.count(name) for container in self.containers) for name in devices}

    def labels(self) -> dict[str, str]:
        return {
            key: value.scalar_text or "" for key, value in self.template.at("metadata", "labels").entries()
        }

    def node_selector(self, label: str) -> Value:
        """The node label that the pod must have, by `nodeSelector`."""
        return self.spec.at("nodeSelector", label)

    def required_node_values(self, label: str) -> list[Value]:
        """Values of a node label that the pod accepts, by `nodeSelector` or a required `In` affinity."""
        chosen = self.node_selector(label)
        values = [chosen] if chosen.exists else []
        terms = self.spec.at(
            "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        for term in terms.items():
            for expression in term["matchExpressions"].items():
                if expression["key"].text == label and expression["operator"].text == "In":
                    values += expression["values"].items()
        return values


@dataclass(frozen=True)
class Manifest:
    """One Kubernetes object."""

    value: Value

    @cached_property
    def kind(self) -> str:
        return self.value["kind"].text or ""

    @cached_property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return (self.value["apiVersion"].text or "").rpartition("/")[0]

    @property
    def name(self) -> Value:
        return self.value.at("metadata", "name")

    @property
    def namespace(self) -> str:
        return self.value.at("metadata", "namespace").text or ""

    @property
    def spec(self) -> Value:
        return self.value["spec"]

    def annotation(self, name: str) -> Value:
        return self.value.at("metadata", "annotations", name)

    def pods(self) -> Iterator[Pod]:
        """The pod templates in it."""
        if self.kind == "Pod":
            yield Pod(self.value)
        elif self.kind == "CronJob":
            yield Pod(self.spec.at("jobTemplate", "spec", "template"))
        elif self.kind in {"Deployment", "DaemonSet", "StatefulSet", "ReplicaSet", "Job"}:
            yield Pod(self.spec["template"])
        elif self.group == "ray.io":
            cluster = ray_cluster(self)
            if cluster:
                yield from (group.pod for group in (cluster.head, *cluster.workers))


@dataclass(frozen=True)
class RayGroup:
    """The head group or one worker group of a Ray cluster."""

    value: Value
    is_head: bool

    @property
    def name(self) -> str:
        return "head" if self.is_head else self.value["groupName"].scalar_text or "worker"

    @cached_property
    def pod(self) -> Pod:
        return Pod(self.value["template"])

    @cached_property
    def ray_container(self) -> Container:
        """KubeRay runs Ray in the first container."""
        return Container(self.value.at("template", "spec", "containers", 0))

    def start_parameter(self, name: str) -> Value:
        return self.value.at("rayStartParams", name)


@dataclass(frozen=True)
class RayCluster:
    """The Ray cluster that a RayCluster, RayService or RayJob describes."""

    owner: Manifest
    spec: Value

    @cached_property
    def head(self) -> RayGroup:
        return RayGroup(self.spec["headGroupSpec"], is_head=True)

    @cached_property
    def workers(self) -> list[RayGroup]:
        return [RayGroup(value, is_head=False) for value in self.spec["workerGroupSpecs"].items()]

    @property
    def groups(self) -> list[RayGroup]:
        return [self.head, *self.workers]

    @property
    def autoscales(self) -> bool:
        return self.spec["enableInTreeAutoscaling"].is_true

    @cached_property
    def uses_efa(self) -> bool:
        """Whether any worker gets an EFA interface."""
        return any(group.pod.count(EFA) for group in self.workers)

    @cached_property
    def worker_environment(self) -> dict[str, list[Value]]:
        """Every value that a worker's Ray container gives an environment variable, by the variable's name."""
        values: dict[str, list[Value]] = {}
        for group in self.workers:
            for entry in group.ray_container.value["env"].items():
                values.setdefault(entry["name"].text or "", []).append(entry["value"])
        return values

    @property
    def ray_version(self) -> tuple[int, int] | None:
        """Major and minor of `rayVersion`; None when it is missing or is none."""
        match = re.match(r"(\d{1,3})\.(\d{1,3})", self.spec["rayVersion"].scalar_text or "")
        return (int(match[1]), int(match[2])) if match else None


def ray_cluster(manifest: Manifest) -> RayCluster | None:
    """The Ray cluster in a Ray object, or None."""
    if manifest.group != "ray.io":
        return None
    spec = {
        "RayCluster": manifest.spec,
        "RayService": manifest.spec["rayClusterConfig"],
        "RayJob": manifest.spec["rayClusterSpec"],
    }.get(manifest.kind)
    return RayCluster(manifest, spec) if spec is not None and spec.is_mapping else None


def flattened(value: Value) -> Iterator[Manifest]:
    """A document's objects: its own, or those of a `List`."""
    if value["kind"].text == "List" and value["items"].is_list:
        for item in value["items"].items():
            yield Manifest(item)
    else:
        yield Manifest(value)
