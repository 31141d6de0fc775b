"""Stacks and nodes: what CloudFormation and EKS make."""

from __future__ import annotations

from datetime import datetime

from kvrelay.ops.cluster import Object
from kvrelay.ops.wait.causes import Cause, cause, shortened
from kvrelay.ops.wait.phases import Progress
from kvrelay.ops.wait.snapshot import NodeGroup, Snapshot, Stack, condition, created, holds, label, time_of
from kvrelay.ops.wait.wanted import Wanted
from kvrelay.settings.scheduling import GPU_WORKER_ROLE, NODE_GROUP_LABEL, ROLE_LABEL, SYSTEM_ROLE

_DONE = {"CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "IMPORT_COMPLETE"}
_GOOD = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "REVIEW_IN_PROGRESS")


def network(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The Network stack."""
    return _stack(snapshot, wanted, "network")


def control_plane(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The EKS control plane; the Cluster stack goes on with add-ons and nodes."""
    stack = snapshot.stack(f"{wanted.name}-cluster")
    if snapshot.cluster == "ACTIVE":
        refused = snapshot.unread.get("kubernetes")
        if refused:
            mend = "from where you are it must be reachable, and your identity known to it"
            return Progress(
                detail="EKS says ACTIVE", cause=Cause("out of reach", refused, mend), began=snapshot.at
            )
        return Progress(True, "ACTIVE", snapshot.cluster_created)
    if stack is None:
        return Progress(detail="no stack yet")
    return Progress(
        detail=f"EKS says {snapshot.cluster}" if snapshot.cluster else stack.status,
        began=snapshot.cluster_created or stack.created,
        cause=_failure(stack, wanted),
    )


def system_nodes(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The nodes of operator and head."""
    ours = [node for node in snapshot.nodes if label(node, ROLE_LABEL) == SYSTEM_ROLE]
    return _nodes(snapshot, wanted, ours, wanted.system_nodes, ("system",))


def gpu_nodes(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The nodes of the engines."""
    names = tuple(group.name for group in wanted.gpu_groups)
    ours = [
        node
        for node in snapshot.nodes
        if label(node, ROLE_LABEL) == GPU_WORKER_ROLE and label(node, NODE_GROUP_LABEL) in ("", *names)
    ]
    return _nodes(snapshot, wanted, ours, wanted.gpu_nodes, names)


def serving_stack(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The Serving stack: CRDs, operator, RayService."""
    progress = _stack(snapshot, wanted, "serving")
    if not snapshot.readable or not progress.done:
        return progress
    where = f"kubectl -n {wanted.namespace}"
    if not any(name.startswith("rayservices.") for name in snapshot.definitions):
        said = "the CustomResourceDefinition rayservices.ray.io is missing: Kubernetes knows no RayService"
        return Progress(
            detail=progress.detail,
            began=progress.began,
            cause=Cause("CRD missing", said, "deploy the serving stack again", final=True),
        )
    if snapshot.ray_service is None and "ray service" not in snapshot.unread:
        said = f"the RayService {wanted.service} is not in {wanted.namespace}"
        mend = f"{where} get rayservice; deploy the serving stack again"
        return Progress(
            detail=progress.detail,
            began=progress.began,
            cause=Cause("RayService missing", said, mend, final=True),
        )
    return progress


def _stack(snapshot: Snapshot, wanted: Wanted, part: str) -> Progress:
    stack = snapshot.stack(f"{wanted.name}-{part}")
    if stack is None:
        return Progress(detail="no stack yet")
    began = stack.updated if stack.updated and not stack.status.startswith("CREATE") else stack.created
    if stack.status in _DONE:
        return Progress(True, stack.status, began, stack.ended)
    return Progress(detail=stack.status, began=began, cause=_failure(stack, wanted))


def _failure(stack: Stack, wanted: Wanted) -> Cause | None:
    if stack.status in _GOOD or stack.status in _DONE:
        return None
    first = next((event for event in stack.failures if "cancelled" not in event.reason.lower()), None)
    if first is None:
        return Cause(
            "stack",
            f"the stack {stack.name} is {stack.status}",
            "look at its events in CloudFormation; deploy again",
            final=True,
        )
    found = cause("aws", first.reason, wanted.context)
    if found is None:
        said = f"{first.resource} ({first.type}): {shortened(first.reason)}"
        found = Cause("stack", said, "mend what it names, then deploy again")
    # CloudFormation has given up: whatever the cause, this deploy does not go on.
    return Cause(
        found.name, f"{stack.name} is {stack.status}: {found.said}", found.mend, True, shortened(first.reason)
    )


def _nodes(
    snapshot: Snapshot, wanted: Wanted, nodes: list[Object], count: int, groups: tuple[str, ...]
) -> Progress:
    ready = [node for node in nodes if holds(node, "Ready")]
    found = [group for name in groups if (group := snapshot.node_group(name))]
    detail = f"{len(ready)} of {count} ready"
    began = min((group.created for group in found), default=None)
    if len(ready) >= count:
        times = [
            time_of(condition(node, "Ready").get("lastTransitionTime")) or created(node) for node in ready
        ]
        return Progress(True, detail, began, max(filter(None, times), default=None))
    return Progress(detail=detail, began=began, cause=_late_nodes(nodes, found, wanted, snapshot.at))


def _late_nodes(nodes: list[Object], groups: list[NodeGroup], wanted: Wanted, now: datetime) -> Cause | None:
    for group in groups:
        for issue in group.issues:
            if found := cause("aws", issue, wanted.context):
                return found
        if group.issues:
            return Cause(
                "node group", f"node group {group.name}: {shortened(group.issues[0])}", "see EKS's own words"
            )
        if group.status == "CREATE_FAILED":
            said = f"node group {group.name} is {group.status}"
            return Cause("node group", said, "look at the stack's events; deploy again", final=True)
    for node in nodes:
        ready = condition(node, "Ready")
        if ready.get("status") == "True":
            continue
        since = time_of(ready.get("lastTransitionTime"))
        # A node that has just registered is not ready for some seconds.
        if ready.get("status") == "Unknown" or (since and (now - since).total_seconds() > 60):
            words = shortened(ready.get("message") or ready.get("reason") or "")
            said = f"node {node['metadata']['name']} is not ready: {words}"
            mend = (
                "EKS replaces a node that stays so; or terminate its instance, and the group starts another"
            )
            return Cause("node not ready", said, mend)
    return None
