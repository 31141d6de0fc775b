"""What a kubelet reports of a pod: healthy, or broken in one of the ways that users meet."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from kvrelay.local.kubernetes.api import Object


class Fault(StrEnum):
    """How a pod can fail."""

    CRASH = "crash"
    """The container exits with 1 again and again (CrashLoopBackOff)."""
    IMAGE_PULL = "image-pull"
    """The image can't be pulled (ImagePullBackOff)."""
    NEVER_READY = "never-ready"
    """The container runs and its readiness probe fails."""


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(pod: Object, address: str, *, ready: bool, restarts: int = 0) -> Object:
    """All containers run; `ready` says what their readiness probes say."""
    started = pod.get("status", {}).get("startTime") or now()
    state = {"running": {"startedAt": started}}
    containers = [
        _container(each, state, ready=ready, started=True, restarts=restarts)
        for each in pod["spec"]["containers"]
    ]
    return {
        **_base(pod, address, started),
        "phase": "Running",
        "conditions": _conditions(initialized=True, ready=ready),
        "containerStatuses": containers,
        "initContainerStatuses": _finished(pod["spec"].get("initContainers", []), started),
    }


def succeeded(pod: Object, address: str) -> Object:
    """Every container has ended with 0, as a Job's do."""
    started = now()
    return {
        **_base(pod, address, started),
        "phase": "Succeeded",
        "conditions": _conditions(initialized=True, ready=False),
        "containerStatuses": _finished(pod["spec"]["containers"], started),
        "initContainerStatuses": _finished(pod["spec"].get("initContainers", []), started),
    }


def failed(pod: Object, address: str, fault: Fault) -> Object:
    """The pod broken by `fault`."""
    if fault is Fault.NEVER_READY:
        return running(pod, address, ready=False)
    started = now()
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}
    last: Object = {}
    if fault is Fault.CRASH:
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}
        last = {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": started, "finishedAt": started}}
    restarts = 4 if last else 0
    return {
        **_base(pod, address, started),
        "phase": "Running" if fault is Fault.CRASH else "Pending",
        "conditions": _conditions(initialized=True, ready=False),
        "containerStatuses": [
            {
                **_container(each, {"waiting": waiting}, ready=False, started=False, restarts=restarts),
                "lastState": last,
            }
            for each in pod["spec"]["containers"]
        ],
        "initContainerStatuses": _finished(pod["spec"].get("initContainers", []), started),
    }


def _base(pod: Object, address: str, started: str) -> Object:
    host = pod["spec"]["nodeName"].split(".")[0].removeprefix("ip-").replace("-", ".")
    pod_address = host if pod["spec"].get("hostNetwork") else address
    return {"hostIP": host, "podIP": pod_address, "podIPs": [{"ip": pod_address}], "startTime": started}


def _conditions(*, initialized: bool, ready: bool) -> list[Object]:
    values = {
        "PodReadyToStartContainers": True,
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": True,
    }
    reason = {} if ready else {"reason": "ContainersNotReady"}
    return [
        {
            "type": kind,
            "status": str(value),
            "lastTransitionTime": now(),
            **(reason if kind.endswith("Ready") else {}),
        }
        for kind, value in values.items()
    ]


def _container(spec: Object, state: Object, *, ready: bool, started: bool, restarts: int = 0) -> Object:
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": f"simulated://{spec['image']}",
        "containerID": f"simulated://{spec['name']}",
        "ready": ready,
        "started": started,
        "restartCount": restarts,
        "state": state,
    }


def _finished(containers: list[Object], started: str) -> list[Object]:
    done = {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": started}
    return [
        # A sidecar is an init container that goes on running.
        _container(each, {"running": {"startedAt": started}}, ready=True, started=True)
        if each.get("restartPolicy") == "Always"
        else _container(each, {"terminated": done}, ready=True, started=False)
        for each in containers
    ]
