"""Device plugins, operator, Ray's head and workers: what Kubernetes starts."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from kvrelay.ops.cluster import Object
from kvrelay.ops.wait.causes import Cause
from kvrelay.ops.wait.phases import Progress
from kvrelay.ops.wait.pod_causes import absence_cause, first_cause
from kvrelay.ops.wait.snapshot import (
    Snapshot,
    condition,
    created,
    holds,
    label,
    message,
    name_of,
    time_of,
)
from kvrelay.ops.wait.wanted import GpuGroup, Wanted
from kvrelay.settings.scheduling import GPU_WORKER_ROLE, NODE_GROUP_LABEL, ROLE_LABEL

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
_PLUGINS = {GPU: "nvidia-device-plugin", EFA: "aws-efa-k8s-device-plugin"}
_OPERATOR = "kuberay-operator"
# A plugin registers some seconds after its pod starts.
_REGISTERS_S = 60


def device_plugins(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Every GPU node offers its GPUs and EFA interfaces."""
    groups = {group.name: group for group in wanted.gpu_groups}
    nodes = [
        node for node in snapshot.nodes if label(node, ROLE_LABEL) == GPU_WORKER_ROLE and holds(node, "Ready")
    ]
    gpus, efa = (sum(_offers(node, resource) for node in nodes) for resource in (GPU, EFA))
    all_gpus = sum(group.count * group.gpus for group in wanted.gpu_groups)
    all_efa = sum(group.count * group.efa for group in wanted.gpu_groups)
    detail = f"{gpus} of {all_gpus} GPUs, {efa} of {all_efa} EFA interfaces"
    # Nodes come with the Cluster stack, plugins with the Serving stack: the later of the two begins it.
    plugins = [each for each in snapshot.daemon_sets if name_of(each) in _PLUGINS.values()]
    began = max((time for each in (*nodes, *plugins) if (time := created(each))), default=None)
    if gpus >= all_gpus and efa >= all_efa:
        return Progress(True, detail, began)
    return Progress(detail=detail, began=began, cause=_plugin_cause(snapshot, wanted, nodes, groups))


def _plugin_cause(
    snapshot: Snapshot, wanted: Wanted, nodes: list[Object], groups: dict[str, GpuGroup]
) -> Cause | None:
    for resource, name in _PLUGINS.items():
        found = next((each for each in snapshot.daemon_sets if name_of(each) == name), None)
        lacking = [
            node
            for node in nodes
            if (group := groups.get(label(node, NODE_GROUP_LABEL)))
            and _offers(node, resource) < (group.gpus if resource == GPU else group.efa)
            and _had_time(node, found, snapshot.at)
        ]
        if not lacking:
            continue
        node = name_of(lacking[0])
        if found is None:
            said = f"the DaemonSet {name} is not in kube-system, so {node} offers no {resource}"
            return Cause("plugin missing", said, "deploy the serving stack again")
        status = found.get("status") or {}
        if not status.get("desiredNumberScheduled"):
            said = f"the DaemonSet {name} wants no pod at all: no node has the labels that it selects"
            mend = f"GPU nodes need the label {ROLE_LABEL}={GPU_WORKER_ROLE}; nodes added by hand lack it"
            return Cause("plugin selects no node", said, mend)
        ours = [pod for pod in snapshot.pods if name_of(pod).startswith(name)]
        if broken := first_cause(ours, snapshot, wanted) or absence_cause([found], snapshot, wanted):
            return broken
        said = f"{node} offers {_offers(lacking[0], resource)} {resource}, though {name} runs"
        mend = f"kubectl -n kube-system logs ds/{name}; a node whose driver is unwell is best terminated"
        return Cause("plugin at zero", said, mend)
    return None


def _had_time(node: Object, plugin: Object | None, now: datetime) -> bool:
    """Whether node and plugin have been there long enough for the one to register with the other."""
    ready = time_of(condition(node, "Ready").get("lastTransitionTime")) or created(node)
    times = [time for time in (ready, created(plugin) if plugin else None) if time]
    return not times or (now - max(times)).total_seconds() > _REGISTERS_S


def _offers(node: Object, resource: str) -> int:
    return int(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def operator(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The KubeRay operator."""
    found = next((each for each in snapshot.deployments if name_of(each) == _OPERATOR), None)
    if found is None:
        return Progress(detail="not there yet")
    if (found.get("status") or {}).get("readyReplicas"):
        return Progress(
            True,
            _image_tag(found),
            created(found),
            time_of(condition(found, "Available").get("lastTransitionTime")),
        )
    pods = [pod for pod in snapshot.pods if name_of(pod).startswith(_OPERATOR)]
    failed = first_cause(pods, snapshot, wanted)
    if failed is None and (refusal := condition(found, "ReplicaFailure")).get("status") == "True":
        said = f"the operator's pod is refused: {refusal.get('message', '')}"
        failed = Cause("operator refused", said, "see the cluster's quotas and policies")
    return Progress(detail="not ready", began=created(found), cause=failed)


def _image_tag(deployment: Object) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def head(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Ray's head pod."""
    service = snapshot.ray_service
    pods = snapshot.heads()
    if not pods:
        cause = absence_cause(_owners(snapshot), snapshot, wanted)
        return Progress(detail="no pod yet", began=created(service) if service else None, cause=cause)
    pod = pods[-1]
    ready = condition(pod, "Ready")
    if ready.get("status") == "True":
        return Progress(True, name_of(pod), created(pod), time_of(ready.get("lastTransitionTime")))
    detail = _waits_in(pod) or "not ready"
    return Progress(detail=detail, began=created(pod), cause=first_cause([pod], snapshot, wanted))


def workers(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Every worker has a node."""
    pods, needed = snapshot.workers(), sum(wanted.workers.values())
    placed = [pod for pod in pods if (pod.get("spec") or {}).get("nodeName")]
    groups = {name: len([p for p in placed if label(p, "ray.io/group") == name]) for name in wanted.workers}
    detail = ", ".join(f"{name} {groups[name]} of {count}" for name, count in wanted.workers.items())
    began = min((time for pod in pods if (time := created(pod))), default=None)
    if all(groups[name] >= count for name, count in wanted.workers.items()):
        times = [time_of(condition(pod, "PodScheduled").get("lastTransitionTime")) for pod in placed]
        return Progress(True, detail, began, max(filter(None, times), default=None))
    unplaced = [pod for pod in pods if pod not in placed]
    cause = first_cause(unplaced, snapshot, wanted)
    if cause is None and len(pods) < needed:
        cause = absence_cause(_owners(snapshot), snapshot, wanted)
    return Progress(detail=detail, began=began, cause=cause)


def image(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The container image is on every worker's node, and its container runs."""
    placed = [pod for pod in snapshot.workers() if (pod.get("spec") or {}).get("nodeName")]
    needed = sum(wanted.workers.values())
    running = [pod for pod in placed if runs_since(pod)]
    detail = f"{len(running)} of {needed} containers run"
    waits = next((words for pod in placed if (words := _waits_in(pod))), "")
    began = min(
        (
            time
            for pod in placed
            if (time := time_of(condition(pod, "PodScheduled").get("lastTransitionTime")))
        ),
        default=None,
    )
    if needed and len(running) >= needed:
        return Progress(True, detail, began, max(filter(None, map(runs_since, running)), default=None))
    cause = first_cause(placed, snapshot, wanted)
    return Progress(
        detail=f"{detail}; {waits}" if waits else detail,
        began=began,
        cause=cause or _pull_events(snapshot, placed),
    )


def _pull_events(snapshot: Snapshot, pods: Iterable[Object]) -> Cause | None:
    for pod in pods:
        if runs_since(pod):
            continue
        for event in snapshot.events_of(pod, kind="BackOff"):
            return Cause("image", f"pod {name_of(pod)}: {message(event)}", "see its events")
    return None


def _owners(snapshot: Snapshot) -> list[Object | None]:
    """The RayService and its RayClusters, which make the pods."""
    status = (snapshot.ray_service or {}).get("status") or {}
    names = {
        str((status.get(part) or {}).get("rayClusterName"))
        for part in ("pendingServiceStatus", "activeServiceStatus")
        if (status.get(part) or {}).get("rayClusterName")
    }
    return [snapshot.ray_service, *({"metadata": {"name": name}} for name in sorted(names))]


def _waits_in(pod: Object) -> str:
    """Which init container a pod is in, in words."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        if "running" in (status.get("state") or {}):
            return {
                "wait-gcs-ready": "waits for Ray's head",
                "fetch-weights": "fetches weights from the bucket",
                "fetch-token": "fetches the hub's token",
            }.get(status["name"], f"runs {status['name']}")
    return ""


def runs_since(pod: Object) -> datetime | None:
    """When a pod's own containers started; None unless all run."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    times = [time_of(((each.get("state") or {}).get("running") or {}).get("startedAt")) for each in statuses]
    return max(filter(None, times), default=None) if statuses and all(times) else None
