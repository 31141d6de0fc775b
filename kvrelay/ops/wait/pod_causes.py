"""Why a pod does not run, or is not there at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvrelay.ops.cluster import Object
from kvrelay.ops.wait.causes import Cause, cause, shortened
from kvrelay.ops.wait.snapshot import Snapshot, condition, label, message, name_of
from kvrelay.ops.wait.wanted import Wanted

_TELLING_EVENTS = (
    "FailedMount",
    "FailedAttachVolume",
    "FailedCreatePodSandBox",
    "Failed",
    "UnexpectedAdmissionError",
)
_HARMLESS = {"ContainerCreating", "PodInitializing", ""}


def first_cause(pods: Iterable[Object], snapshot: Snapshot, wanted: Wanted) -> Cause | None:
    """The cause of the first pod that has one; a final one goes before others."""
    causes = [found for pod in pods if (found := pod_cause(pod, snapshot, wanted))]
    return next((each for each in causes if each.final), causes[0] if causes else None)


def pod_cause(pod: Object, snapshot: Snapshot, wanted: Wanted) -> Cause | None:
    """Why a pod is not scheduled, not started or ends again and again."""
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        text = str(scheduled.get("message") or scheduled.get("reason") or "")
        found = _named("scheduling", text, pod, wanted)
        return found or Cause("scheduling", f"{_called(pod)} waits: {shortened(text)}", "see the nodes above")
    status = pod.get("status") or {}
    if status.get("reason") == "Evicted" or status.get("phase") == "Failed":
        text = f"{status.get('reason', 'Failed')}: {status.get('message', '')}"
        return _named("container", text, pod, wanted)
    for container in _containers(pod):
        if found := _container_cause(container, pod, wanted):
            return found
    if not _started(pod):
        for reason in _TELLING_EVENTS:
            for event in snapshot.events_of(pod, kind=reason):
                if found := _named("container", f"{reason}: {message(event)}", pod, wanted):
                    return found
    return None


def absence_cause(owners: Iterable[Object | None], snapshot: Snapshot, wanted: Wanted) -> Cause | None:
    """Why pods are not even made, from warnings about what should make them."""
    for owner in owners:
        for event in snapshot.events_of(owner):
            text = f"{event.get('reason', '')}: {message(event)}"
            if found := cause("admission", text, wanted.context):
                return found
    return None


def _container_cause(status: Object, pod: Object, wanted: Wanted) -> Cause | None:
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    last = (status.get("lastState") or {}).get("terminated") or {}
    image = str(status.get("image", ""))
    if ended and ended.get("exitCode"):
        waiting = {"reason": ended.get("reason", "Error"), "message": f"exit code {ended['exitCode']}"}
        last = last or ended
    reason = str(waiting.get("reason") or "")
    if reason in _HARMLESS and not (last.get("reason") == "OOMKilled" and not status.get("ready")):
        return None
    parts = [f"{reason}: {waiting.get('message', '')}"]
    if last:
        parts.append(f"{last.get('reason', '')}, exit code {last.get('exitCode', '')}")
        if last.get("message"):
            parts.append(f"{status['name']}: {str(last['message']).strip().splitlines()[-1]}")
    return _named("container", "\n".join(parts), pod, wanted, image=image)


def _named(kind: str, text: str, pod: Object, wanted: Wanted, *, image: str = "") -> Cause | None:
    images = [each.get("image", "") for each in (pod.get("spec") or {}).get("containers") or ()]
    return cause(kind, text, wanted.context, pod=_called(pod), image=image or next(iter(images), ""))


def _called(pod: Object) -> str:
    role = label(pod, "ray.io/group")
    return f"{role} pod {name_of(pod)}" if role else f"pod {name_of(pod)}"


def _containers(pod: Object) -> Iterator[Object]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _started(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(statuses) and all("running" in (each.get("state") or {}) for each in statuses)
