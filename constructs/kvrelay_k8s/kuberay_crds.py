"""KubeRay's custom resources: RayCluster, RayService, RayJob; small enough for a plain apply."""

from typing import Any

from cdk8s import Chart
from constructs import Construct

from kvrelay_k8s.names import labels
from kvrelay_k8s.raw_object import RawObject
from kvrelay_k8s.ray_schema import (
    Schema,
    anything,
    conditions,
    listed,
    managed_by,
    ray_cluster_spec,
    ray_cluster_status,
    struct,
    switch,
    text,
    texts_by_name,
    time,
    whole,
)


class KubeRayCrds(Chart):
    """The v1 of each; upstream's v1alpha1 is served by none of our versions."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        clusters = {
            "desired workers": ("integer", ".status.desiredWorkerReplicas"),
            "available workers": ("integer", ".status.availableWorkerReplicas"),
            "cpus": ("string", ".status.desiredCPU"),
            "memory": ("string", ".status.desiredMemory"),
            "gpus": ("string", ".status.desiredGPU"),
            "status": ("string", ".status.state"),
            "age": ("date", ".metadata.creationTimestamp"),
        }
        services = {
            "service status": ("string", ".status.serviceStatus"),
            "num serve endpoints": ("string", ".status.numServeEndpoints"),
        }
        jobs = {
            "job status": ("string", ".status.jobStatus"),
            "deployment status": ("string", ".status.jobDeploymentStatus"),
            "ray cluster name": ("string", ".status.rayClusterName"),
            "start time": ("string", ".status.startTime"),
            "end time": ("string", ".status.endTime"),
            "age": ("date", ".metadata.creationTimestamp"),
        }
        _crd(self, "RayCluster", ray_cluster_spec(), ray_cluster_status(), clusters)
        _crd(self, "RayService", _service_spec(), _service_status(), services)
        _crd(self, "RayJob", _job_spec(), _job_status(), jobs)


def _crd(chart: Chart, kind: str, spec: Schema, status: Schema, columns: dict[str, tuple[str, str]]) -> None:
    singular, plural = kind.lower(), f"{kind.lower()}s"
    schema = struct(
        {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, "spec": spec, "status": status}
    )
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": type, "jsonPath": path} for name, (type, path) in columns.items()
        ],
        "schema": {"openAPIV3Schema": schema},
    }
    manifest: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ray.io", "labels": labels("crd")},
        "spec": {
            "group": "ray.io",
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "singular": singular,
                "plural": plural,
                "categories": ["all"],
            },
            "versions": [version],
        },
    }
    RawObject(chart, kind, manifest)


def _service_spec() -> Schema:
    upgrade = struct(
        {
            "gatewayClassName": text(),
            "intervalSeconds": whole(),
            "maxSurgePercent": whole(100),
            "stepSizePercent": whole(),
        },
        ["gatewayClassName", "intervalSeconds", "stepSizePercent"],
    )
    return struct(
        {
            "deploymentUnhealthySecondThreshold": whole(),
            "excludeHeadPodFromServeSvc": switch(),
            "managedBy": managed_by(),
            "rayClusterConfig": ray_cluster_spec(),
            "rayClusterDeletionDelaySeconds": whole(minimum=0),
            "serveConfigV2": text(),
            "serveService": anything(),
            "serviceUnhealthySecondThreshold": whole(),
            "suspend": switch(),
            "upgradeStrategy": struct({"clusterUpgradeOptions": upgrade, "type": text()}),
        },
        ["rayClusterConfig"],
    )


def _service_status() -> Schema:
    one = struct(
        {
            "applicationStatuses": {"type": "object", "additionalProperties": anything()},
            "lastTrafficMigratedTime": time(),
            "rayClusterName": text(),
            "rayClusterStatus": ray_cluster_status(),
            "targetCapacity": whole(),
            "trafficRoutedPercent": whole(),
        }
    )
    return struct(
        {
            "activeServiceStatus": one,
            "conditions": conditions(),
            "lastUpdateTime": time(),
            "numServeEndpoints": whole(),
            "observedGeneration": whole(format="int64"),
            "pendingServiceStatus": one,
            "serviceStatus": text(),
        }
    )


def _job_spec() -> Schema:
    policies = text("DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone")
    condition = struct(
        {
            "jobDeploymentStatus": text("Failed"),
            "jobStatus": text("SUCCEEDED", "FAILED"),
            "ttlSeconds": whole(0, minimum=0),
        },
        **_cel(
            (
                "JobStatus and JobDeploymentStatus cannot be used together within the same deletion condition.",
                "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
            ),
            (
                "the deletion condition requires either the JobStatus or the JobDeploymentStatus field.",
                "has(self.jobStatus) || has(self.jobDeploymentStatus)",
            ),
        ),
    )
    deletion = struct(
        {
            "deletionRules": listed(
                struct({"condition": condition, "policy": policies}, ["condition", "policy"]),
                minItems=1,
                **{"x-kubernetes-list-type": "atomic"},
            ),
            "onFailure": struct({"policy": policies}),
            "onSuccess": struct({"policy": policies}),
        },
        **_cel(
            (
                "legacy policies (onSuccess/onFailure) and deletionRules cannot be used together within the same "
                "deletionStrategy",
                "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
            ),
            (
                "deletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field "
                "(cannot be empty)",
                "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
            ),
        ),
    )
    return struct(
        {
            "activeDeadlineSeconds": whole(),
            "backoffLimit": whole(0),
            "clusterSelector": texts_by_name(),
            "deletionStrategy": deletion,
            "entrypoint": text(),
            "entrypointNumCpus": {"type": "number"},
            "entrypointNumGpus": {"type": "number"},
            "entrypointResources": text(),
            "jobId": text(),
            "managedBy": managed_by(),
            "metadata": texts_by_name(),
            "preRunningDeadlineSeconds": whole(minimum=1),
            "rayClusterSpec": ray_cluster_spec(),
            "runtimeEnvYAML": text(),
            "shutdownAfterJobFinishes": switch(),
            "submissionMode": text(default="K8sJobMode"),
            "submitterConfig": struct({"backoffLimit": whole()}),
            "submitterPodTemplate": anything(),
            "suspend": switch(),
            "ttlSecondsAfterFinished": whole(0),
        }
    )


def _job_status() -> Schema:
    return struct(
        {
            "dashboardURL": text(),
            "endTime": time(),
            "failed": whole(0),
            "jobDeploymentStatus": text(),
            "jobId": text(),
            "jobStatus": text(),
            "jobStatusCheckFailureStartTime": time(),
            "message": text(),
            "observedGeneration": whole(format="int64"),
            "rayClusterName": text(),
            "rayClusterStatus": ray_cluster_status(),
            "rayJobInfo": struct({"endTime": time(), "startTime": time()}),
            "reason": text(),
            "startTime": time(),
            "succeeded": whole(0),
        }
    )


def _cel(*rules: tuple[str, str]) -> dict[str, Any]:
    return {"x-kubernetes-validations": [{"message": message, "rule": rule} for message, rule in rules]}
