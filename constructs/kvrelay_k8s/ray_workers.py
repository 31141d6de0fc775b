"""Ray's worker groups: prefill and decode, each pod on a GPU node of its own."""

from __future__ import annotations

import json

from kvrelay.errors import InvalidFileError
from kvrelay.serve_app import Engine, WorkerGroup
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import (
    GPU_TAINT_EFFECT,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    GPU_WORKER_ROLE,
    NODE_GROUP_LABEL,
    ROLE_LABEL,
)
from kvrelay_k8s.model_access import ModelAccess
from kvrelay_k8s.names import (
    EFA_RESOURCE,
    GPU_RESOURCE,
    HUGE_PAGES_RESOURCE,
    METRICS_PORT,
    RAY_GROUP_LABEL,
    RAY_SERVICE_ACCOUNT,
    WORKER_PRIORITY,
    labels,
)
from kvrelay_k8s.node_cache import cache_environment, cache_mount, cache_volume
from kvrelay_k8s.node_room import HUGE_PAGES_MIB, Room, worker_room
from kvrelay_k8s.ray_container import (
    SCRIPTS_CONFIG_MAP,
    SCRIPTS_PATH,
    Object,
    alive,
    drain,
    environment,
    ingress_mount,
    ingress_volume,
    security_context,
    worker_ports,
    worker_ready,
)

_GIB = 2**30
_OBJECT_STORE_GIB = 4
# Ray Serve's own graceful_shutdown_timeout_s.
_SHUTDOWN_SECONDS = 20
_LEAST_DRAIN_SECONDS = 120


def worker_group(
    group: WorkerGroup,
    others: tuple[WorkerGroup, ...],
    deployment: Deployment,
    access: ModelAccess,
    serve_port: int,
) -> Object:
    """One entry of `workerGroupSpecs`. `others` are the groups whose pods must be on other nodes.

    Raises InvalidFileError when it asks for more huge pages than its nodes have.
    """
    if (pages := deployment.serving.hugepages_mib) > HUGE_PAGES_MIB:
        raise InvalidFileError(
            [
                f"serving.hugepages_mib: {pages} is more than the {HUGE_PAGES_MIB} MiB that a node with EFA sets "
                f"aside, so no worker would start; use {HUGE_PAGES_MIB} or less"
            ]
        )
    room = worker_room(group.instance)
    return {
        "groupName": group.name,
        "replicas": group.pods,
        "minReplicas": group.pods,
        "maxReplicas": group.pods,
        "numOfHosts": 1,
        "rayStartParams": {
            "metrics-export-port": str(METRICS_PORT),
            "num-cpus": str(room.millicpu // 1000),
            "num-gpus": str(group.gpus),
            "object-store-memory": str(_OBJECT_STORE_GIB * _GIB),
            # KubeRay reads it and pastes it into a shell command: plain JSON between quotes serves both.
            "resources": f"'{json.dumps({group.ray_resource: group.gpus})}'",
        },
        "template": {
            "metadata": {"labels": labels(f"ray-{group.name}")},
            "spec": _pod(group, others, deployment, access, serve_port, room),
        },
    }


def drain_seconds(engine: Engine) -> int:
    """How long answers under way may take to finish."""
    shutdown = engine.get("deployment_config", "graceful_shutdown_timeout_s")
    written = shutdown if isinstance(shutdown, int | float) else _SHUTDOWN_SECONDS
    return max(_LEAST_DRAIN_SECONDS, round(written))


def _pod(
    group: WorkerGroup,
    others: tuple[WorkerGroup, ...],
    deployment: Deployment,
    access: ModelAccess,
    serve_port: int,
    room: Room,
) -> Object:
    seconds = drain_seconds(group.engine)
    return {
        "serviceAccountName": RAY_SERVICE_ACCOUNT,
        "automountServiceAccountToken": False,
        "priorityClassName": WORKER_PRIORITY,
        # The drain, and Ray's own end after it.
        "terminationGracePeriodSeconds": seconds + 60,
        "nodeSelector": {ROLE_LABEL: GPU_WORKER_ROLE, NODE_GROUP_LABEL: group.node_group.name},
        "tolerations": [
            {"key": GPU_TAINT_KEY, "operator": "Equal", "value": GPU_TAINT_VALUE, "effect": GPU_TAINT_EFFECT}
        ],
        "affinity": _apart_from(others),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {RAY_GROUP_LABEL: group.name}},
            }
        ],
        "initContainers": access.init_containers,
        "containers": [_container(group, deployment, access, serve_port, room, seconds)],
        "volumes": [
            cache_volume(group.instance),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{_shm_gib(room)}Gi"}},
            {"name": "ray-logs", "emptyDir": {"sizeLimit": "20Gi"}},
            {"name": "scripts", "configMap": {"name": SCRIPTS_CONFIG_MAP}},
            ingress_volume(),
            *access.volumes,
        ],
    }


def _apart_from(others: tuple[WorkerGroup, ...]) -> Object:
    """Prefill and decode on one node talk to EFA's own loopback, which fails with EAGAIN (dynamo #7764)."""
    if not others:
        return {}
    names = [other.name for other in others]
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": RAY_GROUP_LABEL, "operator": "In", "values": names}]},
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _container(
    group: WorkerGroup, deployment: Deployment, access: ModelAccess, serve_port: int, room: Room, seconds: int
) -> Object:
    serving = deployment.serving
    devices = {GPU_RESOURCE: str(group.gpus), EFA_RESOURCE: str(group.efa_interfaces)}
    if serving.hugepages_mib:
        devices[HUGE_PAGES_RESOURCE] = f"{serving.hugepages_mib}Mi"
    requests = {"cpu": str(room.millicpu // 1000), "memory": f"{room.memory_mib // 1024}Gi", **devices}
    # Without huge pages of its own, a container that uses one is killed.
    efa = {} if serving.hugepages_mib else {"FI_EFA_USE_HUGE_PAGE": "0"}
    return {
        "name": "ray-worker",
        "image": serving.image,
        "imagePullPolicy": "IfNotPresent",
        "ports": worker_ports(serve_port),
        "env": [*environment({**cache_environment(), **efa}), *access.env],
        # No CPU limit: a throttled engine stalls its GPU.
        "resources": {"requests": requests, "limits": {key: requests[key] for key in ("memory", *devices)}},
        "livenessProbe": alive(),
        "readinessProbe": worker_ready(serve_port),
        "lifecycle": drain(seconds),
        "securityContext": security_context(serving),
        "volumeMounts": [
            cache_mount(),
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "ray-logs", "mountPath": "/tmp/ray"},
            {"name": "scripts", "mountPath": SCRIPTS_PATH, "readOnly": True},
            ingress_mount(),
            *access.mounts,
        ],
    }


def _shm_gib(room: Room) -> int:
    """The object store, and what NCCL and vLLM's workers share; it counts as the container's memory."""
    return min(64, max(2 * _OBJECT_STORE_GIB, room.memory_mib // 1024 // 4))
