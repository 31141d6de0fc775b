"""The schema of a Ray cluster, as KubeRay 1.7 reads it: Ray's own fields closed, pod templates left open.

Upstream spells out every field of a pod in each template, which makes its CRDs 0.9 to 1.4 MB. Pods are checked by
the API server when the operator creates them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

_INT32_MAX = 2147483647


def struct(fields: Mapping[str, Schema], required: Sequence[str] = (), **more: Any) -> Schema:
    """A mapping with these fields and no others."""
    schema: Schema = {"type": "object", "properties": dict(fields)}
    return {**schema, **({"required": list(required)} if required else {}), **more}


def text(*choices: str, **more: Any) -> Schema:
    return {"type": "string", **({"enum": list(choices)} if choices else {}), **more}


def whole(default: int | None = None, *, format: str = "int32", **more: Any) -> Schema:
    return {"type": "integer", "format": format, **({} if default is None else {"default": default}), **more}


def switch() -> Schema:
    return {"type": "boolean"}


def time(**more: Any) -> Schema:
    return {"type": "string", "format": "date-time", **more}


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def texts_by_name() -> Schema:
    return {"type": "object", "additionalProperties": text()}


def anything() -> Schema:
    """A mapping that Kubernetes keeps as it is: what belongs to Kubernetes itself."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def quantity() -> Schema:
    pattern = (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    )
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": pattern,
        "x-kubernetes-int-or-string": True,
    }


def managed_by() -> Schema:
    controllers = "['ray.io/kuberay-operator', 'kueue.x-k8s.io/multikueue']"
    return text(
        **{
            "x-kubernetes-validations": [
                {"message": "the managedBy field is immutable", "rule": "self == oldSelf"},
                {
                    "message": "the managedBy field value must be either 'ray.io/kuberay-operator' or "
                    "'kueue.x-k8s.io/multikueue'",
                    "rule": f"self in {controllers}",
                },
            ]
        }
    )


def ray_cluster_spec() -> Schema:
    """`spec` of a RayCluster, `rayClusterConfig` of a RayService, `rayClusterSpec` of a RayJob."""
    return struct(
        {
            "authOptions": struct(
                {"mode": text("disabled", "token"), "secretName": text(), "enableK8sTokenAuth": switch()}
            ),
            "autoscalerOptions": _autoscaler(),
            "enableInTreeAutoscaling": switch(),
            "gcsFaultToleranceOptions": _fault_tolerance(),
            "headGroupSpec": struct(
                {
                    **_group(),
                    "enableIngress": switch(),
                    "headService": anything(),
                    "ingressOptions": anything(),
                    "serviceType": text(),
                },
                ["template"],
            ),
            "headServiceAnnotations": texts_by_name(),
            "historyServerOptions": anything(),
            "managedBy": managed_by(),
            "networkPolicy": {
                **anything(),
                "properties": {"mode": text("DenyAll", "DenyAllIngress", "DenyAllEgress", default="DenyAll")},
            },
            "rayVersion": text(),
            "suspend": switch(),
            "tlsOptions": struct({"enabled": switch()}),
            "upgradeStrategy": struct({"type": text("Recreate", "None")}),
            "workerGroupSpecs": listed(
                struct(
                    {
                        **_group(),
                        "groupName": text(),
                        "idleTimeoutSeconds": whole(),
                        "maxReplicas": whole(_INT32_MAX),
                        "minReplicas": whole(0),
                        "numOfHosts": whole(1),
                        "priority": whole(0),
                        "replicas": whole(0),
                        "scaleStrategy": struct({"workersToDelete": listed(text())}),
                        "suspend": switch(),
                    },
                    ["groupName", "maxReplicas", "minReplicas", "template"],
                )
            ),
        },
        ["headGroupSpec"],
    )


def _group() -> dict[str, Schema]:
    return {
        "labels": texts_by_name(),
        "rayStartParams": texts_by_name(),
        "resources": texts_by_name(),
        "template": anything(),
    }


def _autoscaler() -> Schema:
    return struct(
        {
            "args": listed(text()),
            "command": listed(text()),
            "env": listed(anything()),
            "envFrom": listed(anything()),
            "idleTimeoutSeconds": whole(),
            "image": text(),
            "imagePullPolicy": text(),
            "resources": anything(),
            "securityContext": anything(),
            "upscalingMode": text("Default", "Aggressive", "Conservative"),
            "version": text("v1", "v2"),
            "volumeMounts": listed(anything()),
        }
    )


def _fault_tolerance() -> Schema:
    credential = struct({"value": text(), "valueFrom": anything()})
    immutable = [{"message": "gcsFaultToleranceOptions.backend is immutable", "rule": "self == oldSelf"}]
    return struct(
        {
            "backend": text("redis", "rocksdb", **{"x-kubernetes-validations": immutable}),
            "externalStorageNamespace": text(),
            "redisAddress": text(),
            "redisPassword": credential,
            "redisUsername": credential,
            "storage": struct(
                {
                    "accessModes": listed(text()),
                    "claimName": text(),
                    "deletionPolicy": text("DeleteWithCluster", "Retain"),
                    "size": quantity(),
                    "storageClassName": text(),
                    "subPath": text(),
                }
            ),
        }
    )


def conditions() -> Schema:
    """Kubernetes' own `conditions` of a status."""
    label = r"[A-Za-z0-9]"
    kind = (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        rf"(({label}[-A-Za-z0-9_.]*)?{label})$"
    )
    condition = struct(
        {
            "lastTransitionTime": time(),
            "message": text(maxLength=32768),
            "observedGeneration": whole(format="int64", minimum=0),
            "reason": text(maxLength=1024, minLength=1, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),
            "status": text("True", "False", "Unknown"),
            "type": text(maxLength=316, pattern=kind),
        },
        ["lastTransitionTime", "message", "reason", "status", "type"],
    )
    return listed(condition, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})


def ray_cluster_status() -> Schema:
    """`status` of a RayCluster, which RayService and RayJob repeat."""
    return struct(
        {
            "availableWorkerReplicas": whole(),
            "conditions": conditions(),
            "desiredCPU": quantity(),
            "desiredGPU": quantity(),
            "desiredMemory": quantity(),
            "desiredTPU": quantity(),
            "desiredWorkerReplicas": whole(),
            "endpoints": texts_by_name(),
            "head": struct({"podIP": text(), "podName": text(), "serviceIP": text(), "serviceName": text()}),
            "lastUpdateTime": time(nullable=True),
            "maxWorkerReplicas": whole(),
            "minWorkerReplicas": whole(),
            "observedGeneration": whole(format="int64"),
            "readyWorkerReplicas": whole(),
            "reason": text(),
            "state": text(),
            "stateTransitionTimes": {"type": "object", "additionalProperties": time()},
        }
    )
