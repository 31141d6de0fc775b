"""UP: what happens at the next change and at the end: upgrades, images, sizes, deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.embedded import RayService
from kvrelay.rules.images import is_pinned
from kvrelay.rules.kinds import DeploymentRule, ManifestRule, RayGroupRule, RayServiceRule, SubjectRule
from kvrelay.rules.manifests import GPU, Manifest, RayGroup
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.subject import DeploymentPart, Subject

_VALIDATION = "KubeRay 1.7, ray-operator/controllers/ray/utils/validation.go"
_TYPES = ("None", "NewCluster", "NewClusterWithIncrementalUpgrade")
_INCREMENTAL = "NewClusterWithIncrementalUpgrade"
_APPLY_LIMIT_BYTES = 262_144


class SecondGpuCluster(RayServiceRule):
    """Unless told otherwise KubeRay upgrades by a second Ray cluster beside the first: without as many free GPU
    nodes again it waits for ever."""

    number = "UP001"
    level = Level.WARNING
    mend = "Set upgradeStrategy: {type: None}; Serve configs still change in place"
    source = "https://github.com/ray-project/kuberay/issues/5088"

    def check(self, part: RayService) -> Iterator[Finding]:
        kind = part.spec.at("upgradeStrategy", "type")
        if not part.cluster or not any(group.pod.count(GPU) for group in part.cluster.workers):
            return
        if not kind.exists or kind.text == "NewCluster":
            yield self.found(kind if kind.exists else part.spec, "an upgrade needs every GPU a second time")


class SurgeWithoutRoom(DeploymentRule):
    """The new Ray cluster needs as many nodes again while the old one serves."""

    number = "UP002"
    level = Level.ERROR
    mend = "Set max_count to twice count, or upgrade: in-place"
    source = "https://github.com/ray-project/kuberay/issues/5088"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        if part.settings.serving.upgrade != "surge":
            return
        for index, group in enumerate(part.settings.gpu_nodes.groups):
            if group.largest_count < 2 * group.count:
                value = part.value.at("gpu_nodes", "groups", index, "max_count")
                yield self.found(
                    value, f"{group.name} grows to {group.largest_count} of {2 * group.count} nodes"
                )


class IncompleteIncremental(RayServiceRule):
    """KubeRay refuses an incremental upgrade without the autoscaler, a Gateway class, a step and an interval."""

    number = "UP003"
    level = Level.ERROR
    mend = "Set enableInTreeAutoscaling and clusterUpgradeOptions, or use the type None"
    source = _VALIDATION

    def check(self, part: RayService) -> Iterator[Finding]:
        strategy = part.spec["upgradeStrategy"]
        if strategy["type"].text != _INCREMENTAL:
            return
        if part.cluster and not part.cluster.autoscales:
            yield self.found(strategy["type"], "an incremental upgrade needs enableInTreeAutoscaling")
        options = strategy["clusterUpgradeOptions"]
        lacking = [
            name
            for name in ("gatewayClassName", "stepSizePercent", "intervalSeconds")
            if not options[name].exists
        ]
        step, surge = options["stepSizePercent"].whole, options["maxSurgePercent"].whole
        if lacking:
            yield self.found(options, f"an incremental upgrade lacks {', '.join(lacking)}")
        elif step is not None and not 0 <= step <= (100 if surge is None else min(surge, 100)):
            yield self.found(options["stepSizePercent"], f"a step of {step} % is more than the surge")


class ClusterStrategyInService(RayServiceRule):
    """The strategy of a RayService stands beside its cluster: KubeRay refuses one inside."""

    number = "UP004"
    level = Level.ERROR
    mend = "Move upgradeStrategy up, beside rayClusterConfig"
    source = _VALIDATION

    def check(self, part: RayService) -> Iterator[Finding]:
        value = part.spec.at("rayClusterConfig", "upgradeStrategy")
        if value.exists:
            yield self.found(value, "upgradeStrategy stands inside rayClusterConfig")


class MovingImage(RayGroupRule):
    """A tag that moves gives the next pod another Ray than its cluster's: workers that restart can't join."""

    number = "UP005"
    level = Level.WARNING
    mend = "Name a version, such as serve-llm-cuda-v1.0, or a digest"
    source = "https://kubernetes.io/docs/concepts/containers/images/#image-names"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        image = part.ray_container.image
        if image.text and not is_pinned(image.text):
            yield self.found(image, f"{image.shown} can change under a running cluster")


class TooLargeToApply(ManifestRule):
    """A client-side apply keeps the whole object in an annotation of at most 262144 bytes: larger ones are
    refused."""

    number = "UP006"
    level = Level.WARNING
    mend = "Apply it with kubectl apply --server-side, or kubectl create"
    source = "https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/"

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "CustomResourceDefinition":
            return
        size = len(json.dumps(part.value.raw, separators=(",", ":"), default=str).encode())
        if size > _APPLY_LIMIT_BYTES:
            yield self.found(part.value, f"has {size:,} bytes, too many for a client-side apply")


class UnknownUpgradeType(RayServiceRule):
    """KubeRay knows three types."""

    number = "UP007"
    level = Level.ERROR
    mend = f"Use one of {', '.join(_TYPES)}, in quotes where YAML would read null"
    source = _VALIDATION

    def check(self, part: RayService) -> Iterator[Finding]:
        kind = part.spec.at("upgradeStrategy", "type")
        if kind.exists and kind.scalar not in _TYPES:
            yield self.found(kind, f"{kind.shown} is no upgrade type")


class OperatorInServiceNamespace(SubjectRule):
    """Deleting a namespace that holds both removes the operator before it can take its finalizer off the
    RayService: both stay Terminating."""

    number = "UP008"
    level = Level.WARNING
    mend = "Give the operator a namespace of its own, and delete RayServices first"
    source = "https://github.com/ray-project/kuberay/issues/3388"

    def check(self, part: Subject) -> Iterator[Finding]:
        namespaces = {cluster.owner.namespace for cluster in part.ray_clusters if cluster.owner.namespace}
        for manifest in part.manifests:
            images = [container.image.text or "" for pod in manifest.pods() for container in pod.containers]
            is_operator = manifest.kind == "Deployment" and any("kuberay/operator" in each for each in images)
            if is_operator and manifest.namespace in namespaces:
                at = manifest.value.at("metadata", "namespace")
                yield self.found(at, f"the operator shares the namespace {at.shown} with what it manages")


class SnakeCaseKey(ManifestRule):
    """Manifests are passed on as they are written: Kubernetes knows `apiVersion`, not `api_version`."""

    number = "UP009"
    level = Level.ERROR
    mend = "Write apiVersion"
    source = "https://github.com/aws/aws-cdk/issues/22480"

    def check(self, part: Manifest) -> Iterator[Finding]:
        value = part.value["api_version"]
        if value.exists and not part.value["apiVersion"].exists:
            yield self.found(value, "api_version is no key of Kubernetes")


class NegativeDelay(RayServiceRule):
    """KubeRay refuses a negative delay before the old cluster goes."""

    number = "UP010"
    level = Level.ERROR
    mend = "Use 0 or more; 60 is the default"
    source = _VALIDATION

    def check(self, part: RayService) -> Iterator[Finding]:
        value = part.spec["rayClusterDeletionDelaySeconds"]
        if value.number is not None and value.number < 0:
            yield self.found(value, f"the delay is {value.shown} seconds")


RULES: tuple[Rule[Any], ...] = (
    SecondGpuCluster(),
    SurgeWithoutRoom(),
    IncompleteIncremental(),
    ClusterStrategyInService(),
    MovingImage(),
    TooLargeToApply(),
    UnknownUpgradeType(),
    OperatorInServiceNamespace(),
    SnakeCaseKey(),
    NegativeDelay(),
)
