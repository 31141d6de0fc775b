"""RS: Ray clusters on Kubernetes, as KubeRay reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.images import ray_version
from kvrelay.rules.kinds import ManifestRule, RayClusterRule, RayGroupRule
from kvrelay.rules.known_keys import meant
from kvrelay.rules.manifests import GPU, Manifest, RayCluster, RayGroup
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.value import Value

_VALIDATION = "KubeRay 1.7, ray-operator/controllers/ray/utils/validation.go"
_POD = "KubeRay 1.7, ray-operator/controllers/ray/common/pod.go"
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME = {"RayCluster": 53, "RayService": 47, "RayJob": 47}


class BadRayName(ManifestRule):
    """KubeRay adds suffixes to names and refuses longer ones, and names that are no DNS label."""

    number = "RS001"
    level = Level.ERROR
    mend = "Use lower-case letters, digits and dashes, a letter first; at most 47 of them (RayCluster: 53)"
    source = _VALIDATION

    def check(self, part: Manifest) -> Iterator[Finding]:
        name = part.name
        longest = _LONGEST_NAME.get(part.kind) if part.group == "ray.io" else None
        if longest is None or not name.exists:
            return
        text = name.scalar_text or ""
        if len(text) > longest:
            yield self.found(name, f"the name has {len(text)} characters, more than {longest}")
        elif not _DNS_1035.fullmatch(text):
            yield self.found(name, f"{name.shown} is no name for a {part.kind}")


class MisspelledRayField(ManifestRule):
    """Kubernetes drops fields that Ray's objects do not have: a misspelled one changes nothing, in silence."""

    number = "RS002"
    level = Level.ERROR
    mend = "Correct the field"
    source = "KubeRay 1.7, custom resource definitions"

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.group != "ray.io":
            return
        cluster = {
            "RayService": part.spec["rayClusterConfig"],
            "RayCluster": part.spec,
            "RayJob": part.spec["rayClusterSpec"],
        }.get(part.kind)
        if part.kind == "RayService":
            yield from self._in(part.spec, "ray_service")
        if cluster is not None:
            yield from self._in(cluster, "ray_cluster")
            yield from self._in(cluster["headGroupSpec"], "head_group")
            yield from self._in(cluster["autoscalerOptions"], "autoscaler_options")
            for group in cluster["workerGroupSpecs"].items():
                yield from self._in(group, "worker_group")

    def _in(self, mapping: Value, kind: str) -> Iterator[Finding]:
        for key, value in mapping.entries():
            if name := meant(key, kind):
                yield self.found(value, f"{key} is no field here and is dropped", f"Write {name}")


class OldApiVersion(ManifestRule):
    """v1alpha1 lacks today's fields (upgradeStrategy, authOptions, labels), which are dropped from it."""

    number = "RS003"
    level = Level.WARNING
    mend = "Write apiVersion: ray.io/v1"
    source = "KubeRay 1.7, custom resource definitions"

    def check(self, part: Manifest) -> Iterator[Finding]:
        version = part.value["apiVersion"]
        if version.text == "ray.io/v1alpha1":
            yield self.found(version, "ray.io/v1alpha1 is out of date")


class RayVersionDiffers(RayClusterRule):
    """KubeRay chooses probes, ports and the autoscaler by `rayVersion`; it must be the image's."""

    number = "RS004"
    level = Level.ERROR
    mend = "Set rayVersion to the image's Ray"
    source = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        value = part.spec["rayVersion"]
        stated = value.scalar_text
        for group in part.groups:
            image = group.ray_container.image
            held = ray_version(image.text or "")
            if held and stated and held != stated.removeprefix("v"):
                yield self.found(
                    value, f"rayVersion is {stated[:60]}, the image of {group.name} holds Ray {held}"
                )
                return


class UnlikeRayImages(RayClusterRule):
    """A Ray worker of another version can't join the head."""

    number = "RS005"
    level = Level.ERROR
    mend = "Use images with one Ray version for the head and all workers"
    source = "https://docs.ray.io/en/latest/cluster/faq.html"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        head = ray_version(part.head.ray_container.image.text or "")
        for group in part.workers:
            image = group.ray_container.image
            held = ray_version(image.text or "")
            if head and held and head != held:
                yield self.found(image, f"{group.name} runs Ray {held}, the head Ray {head}")


class GpuCountDiffers(RayClusterRule):
    """Ray schedules by `num-gpus`, Kubernetes by the limit: where they differ, engines find no GPU or GPUs idle."""

    number = "RS006"
    level = Level.ERROR
    mend = "Leave num-gpus out: KubeRay takes the limit"
    source = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/gpu.html"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        for group in part.groups:
            value = group.start_parameter("num-gpus")
            stated = value.scalar_text
            if stated is None or not stated.isdecimal() or len(stated) > 6 or not group.pod.containers:
                continue
            limit = group.ray_container.count(GPU)
            pretended = limit == 0 and part.owner.kind != "RayService"
            kept_free = group.is_head and int(stated) == 0
            if int(stated) != limit and not pretended and not kept_free:
                yield self.found(value, f"num-gpus is {stated}, the container's limit {limit}")


class UnknownFromZero(RayClusterRule):
    """The autoscaler starts a group from nothing only for resources that it knows beforehand: an accelerator type
    is not among them unless the group names it."""

    number = "RS007"
    level = Level.WARNING
    mend = """Add rayStartParams: {resources: '"{\\\\"accelerator_type:L4\\\\": 1}"'} or keep one replica"""
    source = "https://github.com/ray-project/kuberay/issues/2071"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        for group in part.workers if part.autoscales else []:
            least = group.value["minReplicas"].whole or 0
            known = (
                group.ray_container.count(GPU)
                or group.start_parameter("num-gpus").exists
                or group.start_parameter("resources").exists
                or group.value["resources"].exists
            )
            others = any(container.count(GPU) for container in group.pod.containers)
            if (
                not least
                and not group.value["replicas"].whole
                and (others or _wants_gpu(group))
                and not known
            ):
                yield self.found(
                    group.value, f"{group.name} starts at 0 and names no GPU that the autoscaler sees"
                )


def _wants_gpu(group: RayGroup) -> bool:
    tolerated = (each["key"].text for each in group.pod.spec["tolerations"].items())
    return GPU in tolerated


class HeadPortsIncomplete(RayClusterRule):
    """The head service takes the container's ports as they are named: KubeRay finds no dashboard without a port
    `dashboard`, and clients no endpoint without `serve`."""

    number = "RS008"
    level = Level.ERROR
    mend = "Name the ports dashboard (8265) and serve (8000) too, or leave ports out"
    source = "KubeRay 1.7, ray-operator/controllers/ray/common/service.go"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        ports = part.head.ray_container.value["ports"]
        names = {port["name"].text for port in ports.items()}
        wanted = {"dashboard", "serve"} if part.owner.kind == "RayService" else {"dashboard"}
        if names and wanted - names:
            yield self.found(ports, f"the head's ports lack {' and '.join(sorted(wanted - names))}")


class ResourcesTwice(RayGroupRule):
    """A group's resources stand in `resources` or in `rayStartParams`: KubeRay refuses both."""

    number = "RS009"
    level = Level.ERROR
    mend = "Keep one of them"
    source = _VALIDATION

    def check(self, part: RayGroup) -> Iterator[Finding]:
        resources = part.value["resources"]
        for name in ("num-cpus", "num-gpus", "memory", "resources"):
            value = part.start_parameter(name)
            if value.exists and resources.is_mapping and resources.raw:
                yield self.found(value, f"{name} stands in rayStartParams beside the group's resources")


class StartParameterNotText(RayGroupRule):
    """`rayStartParams` holds text only: Kubernetes refuses the object otherwise."""

    number = "RS010"
    level = Level.ERROR
    mend = 'Write it in quotes: num-cpus: "0"'
    source = "KubeRay 1.7, custom resource definitions"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        for name, value in part.value["rayStartParams"].entries():
            if value.exists and value.text is None:
                yield self.found(value, f"{name} is {value.shown}, not text")


class CustomResourcesNotJson(RayGroupRule):
    """`ray start` gets custom resources as JSON through a shell: a form that survives neither stops the pod."""

    number = "RS011"
    level = Level.ERROR
    mend = """Write resources: '"{\\\\"name\\\\": 1}"'"""
    source = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        value = part.start_parameter("resources")
        if value.text is not None and len(value.text) < 10_000 and not _is_shell_json(value.text):
            yield self.found(value, f"{value.shown} is no JSON mapping of names to numbers")


def _is_shell_json(text: str) -> bool:
    text = text.strip()
    for quote in ("'", '"'):
        if len(text) > 1 and text.startswith(quote) and text.endswith(quote):
            text = text[1:-1].replace('\\"', '"')
            break
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in content.values()
    )


class WorkerBounds(RayGroupRule):
    """KubeRay refuses bounds that hold no number, and pulls `replicas` into them in silence."""

    number = "RS012"
    level = Level.ERROR
    mend = "Keep 0 <= minReplicas <= replicas <= maxReplicas"
    source = _VALIDATION

    def check(self, part: RayGroup) -> Iterator[Finding]:
        if part.is_head:
            return
        values = {name: part.value[name] for name in ("replicas", "minReplicas", "maxReplicas")}
        least, most = values["minReplicas"].whole or 0, values["maxReplicas"].whole
        if least < 0 or (most is not None and (most < 0 or most < least)):
            yield self.found(
                values["maxReplicas" if most is not None else "minReplicas"],
                f"minReplicas is {least}, maxReplicas {most if most is not None else 'open'}",
            )
            return
        count = values["replicas"].whole
        if count is not None and (count < least or (most is not None and count > most)):
            yield self.found(values["replicas"], f"replicas is {count}, outside its bounds")


class NoWorkers(RayClusterRule):
    """Left out, `replicas` is 0: without the autoscaler the cluster has no workers and the engines no GPU."""

    number = "RS013"
    level = Level.WARNING
    mend = "Set replicas (and minReplicas) of each worker group"
    source = "KubeRay 1.7, custom resource definitions"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        for group in part.workers if not part.autoscales else []:
            if not group.value["replicas"].exists and not group.value["minReplicas"].whole:
                yield self.found(group.value, f"{group.name} has no replicas and nothing that starts them")


class SameGroupName(RayClusterRule):
    """Pods belong to a group by its name: of two groups with one name, KubeRay makes pods of one and counts both."""

    number = "RS014"
    level = Level.ERROR
    mend = "Give each worker group its own groupName"
    source = "KubeRay 1.7, ray-operator/controllers/ray/raycluster_controller.go"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        seen: set[str] = set()
        for group in part.workers:
            name = group.value["groupName"].scalar_text
            if name is not None and name in seen:
                yield self.found(group.value["groupName"], f"{name[:60]!r} is another group's name too")
            seen.add(name or "")


class GpuBesideRay(RayGroupRule):
    """KubeRay runs Ray in the first container: GPUs of any other are out of its reach."""

    number = "RS015"
    level = Level.ERROR
    mend = "Put Ray's container first, and the GPU limit on it"
    source = _POD

    def check(self, part: RayGroup) -> Iterator[Finding]:
        containers = part.pod.containers
        if containers and not containers[0].count(GPU):
            for container in containers[1:]:
                if container.count(GPU):
                    yield self.found(
                        container.limit(GPU), "the GPU belongs to a container that does not run Ray"
                    )


class NoContainer(RayGroupRule):
    """KubeRay refuses a group without a container."""

    number = "RS016"
    level = Level.ERROR
    mend = "Add template.spec.containers with Ray's image"
    source = _VALIDATION

    def check(self, part: RayGroup) -> Iterator[Finding]:
        if not part.pod.containers:
            yield self.found(part.value, f"{part.name} has no container")


class AutoscalerConflict(RayClusterRule):
    """KubeRay refuses autoscaler v2 without the autoscaler, the version in two places, v2 with pods that restart
    in place, and suspended groups beside it."""

    number = "RS017"
    level = Level.ERROR
    mend = "Set enableInTreeAutoscaling: true with autoscalerOptions.version: v2, restartPolicy: Never"
    source = _VALIDATION

    def check(self, part: RayCluster) -> Iterator[Finding]:
        variable = part.head.ray_container.environment("RAY_enable_autoscaler_v2")
        version = part.spec.at("autoscalerOptions", "version")
        if not part.autoscales and variable.text in {"1", "true"}:
            yield self.found(variable, "autoscaler v2 is chosen, but enableInTreeAutoscaling is off")
        if part.autoscales and variable.exists and version.exists:
            yield self.found(
                variable, "the autoscaler's version is set here and in autoscalerOptions.version"
            )
        for group in part.groups if part.autoscales else []:
            policy = group.pod.spec["restartPolicy"]
            if version.text == "v2" and policy.text not in {None, "", "Never"}:
                yield self.found(policy, f"autoscaler v2 does not take restartPolicy {policy.shown}")
            if group.value["suspend"].is_true:
                yield self.found(group.value["suspend"], "a group can't be suspended beside the autoscaler")


class FaultToleranceConflict(RayClusterRule):
    """KubeRay refuses fault tolerance of the head (GCS) that is set half, or in two ways."""

    number = "RS018"
    level = Level.ERROR
    mend = "Use gcsFaultToleranceOptions alone: redisAddress, redisPassword, externalStorageNamespace"
    source = _VALIDATION

    def check(self, part: RayCluster) -> Iterator[Finding]:
        options = part.spec["gcsFaultToleranceOptions"]
        annotation = part.owner.annotation("ray.io/ft-enabled")
        container = part.head.ray_container
        if options.is_mapping and annotation.exists:
            yield self.found(annotation, "ray.io/ft-enabled stands beside gcsFaultToleranceOptions")
        for name in ("RAY_REDIS_ADDRESS", "REDIS_PASSWORD"):
            enabled = (annotation.scalar_text or "").lower() == "true"
            if not container.names_variable(name):
                continue
            if options.is_mapping:
                yield self.found(container.value["env"], f"{name} stands beside gcsFaultToleranceOptions")
            elif name == "RAY_REDIS_ADDRESS" and not enabled:
                yield self.found(container.value["env"], f"{name} is set without gcsFaultToleranceOptions")


class GatedField(RayClusterRule):
    """KubeRay refuses these fields unless the operator was started with their feature gate, which is off."""

    number = "RS019"
    level = Level.WARNING
    mend = "Remove the field, or start the operator with the gate on and acknowledge this"
    source = "KubeRay 1.7, ray-operator/pkg/features"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        for name, gate in (
            ("networkPolicy", "RayClusterNetworkPolicy"),
            ("tlsOptions", "RayClusterMTLS"),
            ("historyServerOptions", "RayClusterHistoryServer"),
        ):
            if part.spec[name].exists:
                yield self.found(part.spec[name], f"{name} needs the operator's feature gate {gate}")


class LabelsInStartParameters(RayGroupRule):
    """KubeRay refuses Ray labels among the start parameters."""

    number = "RS020"
    level = Level.ERROR
    mend = "Use the group's own field labels"
    source = _VALIDATION

    def check(self, part: RayGroup) -> Iterator[Finding]:
        value = part.start_parameter("labels")
        if value.written:
            yield self.found(value, "labels stand in rayStartParams")


RULES: tuple[Rule[Any], ...] = (
    BadRayName(),
    MisspelledRayField(),
    OldApiVersion(),
    RayVersionDiffers(),
    UnlikeRayImages(),
    GpuCountDiffers(),
    UnknownFromZero(),
    HeadPortsIncomplete(),
    ResourcesTwice(),
    StartParameterNotText(),
    CustomResourcesNotJson(),
    WorkerBounds(),
    NoWorkers(),
    SameGroupName(),
    GpuBesideRay(),
    NoContainer(),
    AutoscalerConflict(),
    FaultToleranceConflict(),
    GatedField(),
    LabelsInStartParameters(),
)
