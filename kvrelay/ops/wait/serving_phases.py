"""Weights, engines, hand-over and endpoint: what Ray and vLLM do, told by their logs and the RayService's status."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from kvrelay.ops.cluster import Object
from kvrelay.ops.wait.causes import Cause, cause, shortened, telling_line
from kvrelay.ops.wait.cluster_phases import runs_since
from kvrelay.ops.wait.phases import Progress
from kvrelay.ops.wait.pod_causes import absence_cause, first_cause
from kvrelay.ops.wait.snapshot import Snapshot, created
from kvrelay.ops.wait.wanted import Wanted

# What vLLM 0.26 logs when the weights of an engine are in GPU memory, and when the engine can serve.
_LOADED = re.compile(r"Loading weights took|Model loading took")
_STARTED = re.compile(r"init engine \(.*\) took")
_SHOOK_HANDS = re.compile(r"NIXL compatibility check passed")
_ERRORS = re.compile(r"\bERROR\b|\b\w+(?:Error|Exception)\b|Traceback|NIXL_ERR_|Max retries|timed out")
_FAILED = {"DEPLOY_FAILED", "UNHEALTHY", "NOT_STARTED_FAILED"}


def weights(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Every engine has its weights."""
    loaded = sum(bool(_LOADED.search("\n".join(lines))) for lines in snapshot.engine_logs.values())
    needed = sum(wanted.workers.values())
    began = _containers_run(snapshot)
    if engines_run(snapshot) or (needed and loaded >= needed):
        return Progress(True, f"{loaded or needed} of {needed} loaded", began)
    return Progress(
        detail=f"{loaded} of {needed} loaded", began=began, cause=_engine_cause(snapshot, wanted, before=True)
    )


def engines(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Ray Serve says that all its applications run."""
    states = dict(_applications(snapshot.ray_service))
    detail = ", ".join(f"{name} {state}" for name, (state, _) in states.items())
    started = sum(bool(_STARTED.search("\n".join(lines))) for lines in snapshot.engine_logs.values())
    if engines_run(snapshot):
        return Progress(True, detail)
    if started:
        detail = f"{detail}; {started} of {sum(wanted.workers.values())} engines started".lstrip("; ")
    return Progress(
        detail=detail or "no application yet",
        cause=_application_cause(snapshot, wanted)
        or _engine_cause(snapshot, wanted, before=False)
        or first_cause([*snapshot.workers(), *snapshot.heads()], snapshot, wanted)
        or absence_cause([snapshot.ray_service], snapshot, wanted),
    )


def handshake(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """Prefill has handed a KV cache to decode."""
    if len(wanted.workers) < 2:
        return Progress(True, "not needed: one engine does both")
    if any(_SHOOK_HANDS.search(line) for lines in snapshot.engine_logs.values() for line in lines):
        return Progress(True, "decode has read prefill's cache")
    if snapshot.answer and snapshot.answer.token:
        return Progress(True, "an answer came through both")
    text = "\n".join(line for lines in snapshot.engine_logs.values() for line in lines)
    found = cause("engine", text, wanted.context) if engines_run(snapshot) else None
    return Progress(cause=found if found and found.name in ("handshake", "fabric") else None)


def endpoint(snapshot: Snapshot, wanted: Wanted) -> Progress:
    """The endpoint answers a completion: the first token."""
    answer = snapshot.answer
    if answer is None:
        return Progress(detail="not asked yet")
    if answer.token:
        return Progress(True, f"{wanted.model} answers")
    if not engines_run(snapshot):
        return Progress(detail="not ready")
    if not answer.models:
        said = f"{wanted.service}-serve-svc does not answer: {answer.error or 'no connection'}"
        mend = f"kubectl -n {wanted.namespace} get endpointslices; workers must be ready to be among them"
        return Progress(detail="no answer", cause=Cause("endpoint not ready", said, mend))
    if wanted.model not in answer.models:
        said = f"the endpoint serves {', '.join(answer.models)}, not {wanted.model}"
        return Progress(
            detail="another model", cause=Cause("wrong model", said, "deploy the serving stack again")
        )
    found = cause("engine", answer.error, wanted.context) if answer.error else None
    if answer.error and found is None:
        said = f"the endpoint lists {wanted.model} and does not answer: {shortened(answer.error)}"
        found = Cause("endpoint not ready", said, "see the engines' logs: kvrelay diagnose")
    return Progress(detail=f"lists {wanted.model}", cause=found)


def engines_run(snapshot: Snapshot) -> bool:
    """KubeRay's Ready stays true when a new config fails: what counts is every application of the newest config."""
    service = snapshot.ray_service
    if service is None:
        return False
    status = service.get("status") or {}
    current = status.get("observedGeneration", 0) >= service["metadata"].get("generation", 0)
    states = [state for _, (state, _) in _applications(service)]
    return current and bool(states) and all(state == "RUNNING" for state in states)


def _applications(service: Object | None) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, status and message of each application and its deployments; the pending cluster's where there is one."""
    status = (service or {}).get("status") or {}
    for part in ("activeServiceStatus", "pendingServiceStatus"):
        for name, app in ((status.get(part) or {}).get("applicationStatuses") or {}).items():
            messages = [str(app.get("message") or "")]
            for deployment in (app.get("serveDeploymentStatuses") or {}).values():
                if deployment.get("message"):
                    messages.append(str(deployment["message"]))
            yield name, (str(app.get("status", "")), "\n".join(filter(None, messages)))


def _application_cause(snapshot: Snapshot, wanted: Wanted) -> Cause | None:
    for name, (state, said) in _applications(snapshot.ray_service):
        if state not in _FAILED and "failed to start" not in said.lower():
            continue
        logs = "\n".join(_last_errors(snapshot))
        found = cause("engine", said, wanted.context)
        # Ray's message may only say that a replica ended: the engine's own words say why.
        better = cause("engine", logs, wanted.context) if logs else None
        if better and (found is None or found.name == "engine"):
            found = better
        words = found.said if found else shortened(telling_line(said or logs))
        mend = found.mend if found else "kvrelay diagnose keeps the engines' logs"
        # Ray starts an unhealthy replica again; a deployment that failed it leaves as it is.
        final = state == "DEPLOY_FAILED"
        return Cause(
            found.name if found else "application",
            f"application {name} is {state}: {words}",
            mend,
            final,
            logs or said,
        )
    return None


def _engine_cause(snapshot: Snapshot, wanted: Wanted, *, before: bool) -> Cause | None:
    """What the engines' own logs name, while Ray still tries: never final, since it starts them again."""
    logs = [
        lines for lines in snapshot.engine_logs.values() if before != bool(_LOADED.search("\n".join(lines)))
    ]
    errors = "\n".join(line for lines in logs for line in lines if _ERRORS.search(line))
    found = cause("engine", errors, wanted.context) if errors else None
    if found is None or found.name == "engine":
        return None
    return Cause(found.name, found.said, found.mend, False, errors[-2000:])


def _last_errors(snapshot: Snapshot) -> list[str]:
    return [line for lines in snapshot.engine_logs.values() for line in lines if _ERRORS.search(line)][-12:]


def _containers_run(snapshot: Snapshot) -> datetime | None:
    times = [time for pod in snapshot.workers() if (time := runs_since(pod))]
    return max(times, default=created(snapshot.ray_service) if snapshot.ray_service else None)
