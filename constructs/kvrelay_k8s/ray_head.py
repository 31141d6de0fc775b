"""The Ray head: schedules and answers for the cluster, and runs no engine."""

from __future__ import annotations

from kvrelay.data import instance_type
from kvrelay.errors import InvalidFileError
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import ROLE_LABEL, SYSTEM_ROLE
from kvrelay_k8s.names import HEAD_PRIORITY, METRICS_PORT, RAY_SERVICE_ACCOUNT, labels
from kvrelay_k8s.node_room import head_room
from kvrelay_k8s.ray_container import (
    Object,
    alive,
    environment,
    head_ports,
    head_ready,
    ingress_mount,
    ingress_volume,
)

_LEAST_MILLICPU, _LEAST_MIB = 500, 3072


def head_group(deployment: Deployment, serve_port: int) -> Object:
    """`headGroupSpec`. Raises InvalidFileError when a system node is too small for it."""
    room = head_room(
        instance_type(deployment.system_nodes.instance_type),
        2 if deployment.serving.upgrade == "surge" else 1,
    )
    if room.millicpu < _LEAST_MILLICPU or room.memory_mib < _LEAST_MIB:
        raise InvalidFileError(
            [
                f"system_nodes.instance_type: {deployment.system_nodes.instance_type!r} leaves a Ray head "
                f"{room.millicpu / 1000:g} vCPU and {room.memory_mib / 1024:g} GiB; "
                "use a larger type such as m7i.xlarge"
            ]
        )
    container = {
        "name": "ray-head",
        "image": deployment.serving.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": head_ports(serve_port),
        # Where the container runtime gives GPUs to every container, this one takes none.
        "env": environment({"NVIDIA_VISIBLE_DEVICES": "void"}),
        "resources": {
            "requests": {"cpu": f"{room.millicpu}m", "memory": f"{room.memory_mib}Mi"},
            "limits": {"memory": f"{room.memory_mib}Mi"},
        },
        "livenessProbe": alive(),
        "readinessProbe": head_ready(),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["NET_RAW"]}},
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "ray-logs", "mountPath": "/tmp/ray"},
            ingress_mount(),
        ],
    }
    return {
        "serviceType": "ClusterIP",
        "rayStartParams": {
            "dashboard-host": "0.0.0.0",
            "metrics-export-port": str(METRICS_PORT),
            # No replica runs here: the head keeps its CPU for scheduling.
            "num-cpus": "0",
            "num-gpus": "0",
            "object-store-memory": str(512 * 2**20),
        },
        "template": {
            "metadata": {"labels": labels("ray-head")},
            "spec": {
                "serviceAccountName": RAY_SERVICE_ACCOUNT,
                "automountServiceAccountToken": False,
                "priorityClassName": HEAD_PRIORITY,
                "nodeSelector": {ROLE_LABEL: SYSTEM_ROLE},
                "containers": [container],
                "volumes": [
                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                    {"name": "ray-logs", "emptyDir": {"sizeLimit": "10Gi"}},
                    ingress_volume(),
                ],
            },
        },
    }
