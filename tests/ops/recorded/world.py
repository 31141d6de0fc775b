"""A deployment's world as AWS, Kubernetes and Ray would describe it at any point of its way to the first token."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kvrelay.local.kubernetes import nodes_of
from kvrelay.ops.cluster import Object
from kvrelay.ops.wait.phases import Phase
from kvrelay.ops.wait.snapshot import Answer, NodeGroup, Snapshot, Stack
from kvrelay.ops.wait.wanted import GpuGroup, Wanted
from kvrelay.settings import Deployment

START = datetime(2026, 12, 1, 8, 0, tzinfo=UTC)
NAMESPACE = "inference"
IMAGE = "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0"
USUAL = {
    "network": 180.0,
    "control-plane": 600.0,
    "system-nodes": 150.0,
    "gpu-nodes": 240.0,
    "device-plugins": 45.0,
    "operator": 90.0,
    "image-pull": 180.0,
    "weights": 145.0,
    "engine-start": 100.0,
    "first-token": 5.0,
}
WANTED = Wanted(
    name="kvrelay",
    region="us-east-2",
    zone="us-east-2a",
    namespace=NAMESPACE,
    service="ray-llm",
    model="qwen3.5-9b",
    system_nodes=1,
    gpu_groups=(GpuGroup("gpu", "g6.8xlarge", 2, 1, 1),),
    workers={"prefill": 1, "decode": 1},
    usual=USUAL,
)
LOADED = "INFO 12-01 default_loader.py:431] Loading weights took 144.90 seconds"
STARTED = "INFO 12-01 core.py:348] init engine (profile, create kv cache, warmup model) took 61.20 s"
SHOOK = "INFO 12-01 base_worker.py:668] NIXL compatibility check passed (hash: 1a2b)"


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def stack(part: str, status: str = "CREATE_COMPLETE", minutes: float = 0, **more: Any) -> Stack:
    ended = at(minutes) + timedelta(seconds=170) if status.endswith("COMPLETE") else None
    return Stack(f"kvrelay-{part}", status, at(minutes), ended=ended, **more)


def nodes(
    *, gpu: int = 2, plugged: bool = True, ready: str = "True", since: float = 17
) -> tuple[Object, ...]:
    """The reference deployment's nodes, `gpu` of its GPU nodes among them."""
    found = []
    for node in nodes_of(Deployment(), plugged=plugged)[: 1 + gpu]:
        item = node.manifest()
        item["metadata"]["creationTimestamp"] = text(at(since - 1))
        status = node.status()
        for each in status["conditions"]:
            each["lastTransitionTime"] = text(at(since))
        if item["metadata"]["labels"]["role"] == "gpu-worker" and ready != "True":
            status["conditions"][0] |= {"status": ready, "message": "container runtime network not ready"}
        found.append({**item, "status": status})
    return tuple(found)


def pod(name: str, group: str, **status: Any) -> Object:
    """A Ray pod; without a status it runs and is ready."""
    kind = "head" if group == "headgroup" else "worker"
    container = "ray-head" if kind == "head" else "ray-worker"
    item = {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name}",
            "creationTimestamp": text(at(19)),
            "labels": {"ray.io/node-type": kind, "ray.io/group": group},
        },
        "spec": {"nodeName": "ip-10-0-0-11", "containers": [{"name": container, "image": IMAGE}]},
    }
    return {**item, "status": status or running(container, started=19.2 if kind == "head" else 23)}


def running(container: str = "ray-worker", *, ready: bool = True, started: float = 23) -> dict[str, Any]:
    return {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": text(at(19.1))},
            {"type": "Ready", "status": str(ready), "lastTransitionTime": text(at(started + 0.5))},
        ],
        "containerStatuses": [
            {
                "name": container,
                "image": IMAGE,
                "ready": ready,
                "state": {"running": {"startedAt": text(at(started))}},
            }
        ],
    }


def unscheduled(message: str) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [scheduled]}


def waits(reason: str, message: str = "", last: dict[str, Any] | None = None) -> dict[str, Any]:
    """A scheduled pod whose container waits for `reason`; `last` is how its container ended before."""
    return {
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": text(at(19.1))}],
        "containerStatuses": [
            {
                "name": "ray-worker",
                "image": IMAGE,
                "state": {"waiting": {"reason": reason, "message": message}},
                "lastState": {"terminated": last} if last else {},
                "restartCount": 3 if last else 0,
            }
        ],
    }


def event(name: str, reason: str, message: str, kind: str = "Warning") -> Object:
    return {
        "metadata": {"name": f"{name}.{reason}", "creationTimestamp": text(at(20))},
        "involvedObject": {"kind": "Pod", "name": name},
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": text(at(20)),
    }


def service(status: str = "RUNNING", message: str = "", **deployments: str) -> Object:
    states = {name: {"status": state} for name, state in deployments.items()}
    app = {"status": status, "message": message, "serveDeploymentStatuses": states}
    return {
        "metadata": {
            "name": "ray-llm",
            "namespace": NAMESPACE,
            "uid": "uid-service",
            "generation": 1,
            "creationTimestamp": text(at(18)),
        },
        "status": {
            "observedGeneration": 1,
            "activeServiceStatus": {"rayClusterName": "ray-llm-x", "applicationStatuses": {"llm": app}},
        },
    }


def daemon_set(name: str, desired: int = 2) -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": text(at(18))},
        "status": {"desiredNumberScheduled": desired, "numberReady": desired},
    }


OPERATOR = {
    "metadata": {
        "name": "kuberay-operator",
        "namespace": "kuberay-system",
        "creationTimestamp": text(at(18)),
    },
    "spec": {"template": {"spec": {"containers": [{"image": "quay.io/kuberay/operator:v1.7.0"}]}}},
    "status": {
        "readyReplicas": 1,
        "conditions": [{"type": "Available", "status": "True", "lastTransitionTime": text(at(18.8))}],
    },
}


def before(minutes: float = 0) -> Snapshot:
    """Nothing is there yet."""
    return Snapshot(at(minutes))


def making_network() -> Snapshot:
    return replace(before(2), stacks=(stack("network", "CREATE_IN_PROGRESS"),))


def making_cluster() -> Snapshot:
    found = (stack("network"), stack("cluster", "CREATE_IN_PROGRESS", 3))
    return replace(before(8), stacks=found, cluster="CREATING", cluster_created=at(3))


def starting_nodes() -> Snapshot:
    groups = (
        NodeGroup("systemNodes-x", "ACTIVE", 1, at(14)),
        NodeGroup("gpu", "CREATING", 2, at(14)),
    )
    return replace(
        making_cluster(), at=at(16), cluster="ACTIVE", node_groups=groups, nodes=nodes(gpu=0, plugged=False)
    )


def applied() -> Snapshot:
    """All stacks are done and all nodes have joined; nothing of Kubernetes has started."""
    groups = tuple(replace(group, status="ACTIVE") for group in starting_nodes().node_groups)
    return replace(
        starting_nodes(),
        at=at(18.5),
        stacks=(stack("network"), stack("cluster", minutes=3), stack("serving", minutes=17)),
        node_groups=groups,
        nodes=nodes(plugged=False),
        definitions=frozenset({"rayservices.ray.io", "rayclusters.ray.io"}),
        ray_service={**service(), "status": {}},
        deployments=({**OPERATOR, "status": {}},),
        daemon_sets=(daemon_set("nvidia-device-plugin"), daemon_set("aws-efa-k8s-device-plugin")),
    )


def operating() -> Snapshot:
    """Operator and head run, devices are there; workers wait for a node."""
    pods = (pod("ray-llm-head", "headgroup"),)
    return replace(applied(), at=at(19.5), nodes=nodes(), deployments=(OPERATOR,), pods=pods)


def pulling() -> Snapshot:
    """Workers have nodes, which pull the image."""
    workers = (
        pod("ray-llm-prefill-a", "prefill", **waits("ContainerCreating")),
        pod("ray-llm-decode-b", "decode", **waits("ContainerCreating")),
    )
    return replace(operating(), at=at(21), pods=(*operating().pods, *workers))


def loading() -> Snapshot:
    """Containers run; engines load their weights."""
    workers = (pod("ray-llm-prefill-a", "prefill"), pod("ray-llm-decode-b", "decode"))
    logs = {"ray-llm-prefill-a": ("Starting to load model",), "ray-llm-decode-b": ()}
    return replace(
        pulling(),
        at=at(24),
        pods=(*operating().pods, *workers),
        ray_service=service("DEPLOYING"),
        engine_logs=logs,
    )


def warming() -> Snapshot:
    """Weights are loaded; engines start."""
    logs = {"ray-llm-prefill-a": (LOADED, STARTED), "ray-llm-decode-b": (LOADED,)}
    return replace(loading(), at=at(26), engine_logs=logs)


def engines_up() -> Snapshot:
    """Serve says RUNNING; nobody has asked yet."""
    logs = {"ray-llm-prefill-a": (LOADED, STARTED), "ray-llm-decode-b": (LOADED, STARTED)}
    return replace(warming(), at=at(28), ray_service=service(), engine_logs=logs)


def serving() -> Snapshot:
    """The first token has come."""
    return replace(engines_up(), at=at(28.2), answer=Answer(("qwen3.5-9b",), True))


def with_worker(status: dict[str, Any], base: Snapshot | None = None) -> Snapshot:
    """`pulling`, with this status of the decode pod."""
    base = base or pulling()
    others = tuple(each for each in base.pods if each["metadata"]["name"] != "ray-llm-decode-b")
    worker = pod("ray-llm-decode-b", "decode", **status)
    if not any(
        each.get("type") == "PodScheduled" and each["status"] == "True" for each in status["conditions"]
    ):
        del worker["spec"]["nodeName"]
    return replace(base, pods=(*others, worker))


def by_name(phases: list[Phase]) -> dict[str, Phase]:
    return {phase.name: phase for phase in phases}
