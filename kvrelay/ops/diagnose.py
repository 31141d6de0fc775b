"""kvrelay diagnose: all that tells why a deployment does not serve, in one archive, with secrets masked."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvrelay.errors import UserError
from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.cluster import Cluster, Object
    from kvrelay.ops.cluster.masking import Masker
    from kvrelay.ops.wait.gathering import Gatherer
    from kvrelay.ops.wait.phases import Phase
    from kvrelay.ops.wait.snapshot import Snapshot
    from kvrelay.settings import Deployment

_LOG_LINES = 2000


@click.command()
@deployment_option
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="Folder for the archive.",
)
def diagnose(path: Path, folder: Path) -> None:
    """Write what tells why a deployment does not serve into one archive.

    Phases with their causes, stacks' failures, nodes, pods, RayService, events, logs of the containers and of Ray's
    engines. Values of Secrets, of environment variables not known to be harmless, tokens and keys are masked, in logs
    too; read it all the same before you share it. The archive is readable by you alone.

    Exit codes: 0 written; 1 it can't be written; 2 wrong input or credentials; 130 interrupted.
    """
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.wait.gathering import Gatherer
    from kvrelay.ops.wait.judging import judge
    from kvrelay.ops.wait.wanted import Wanted
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    source = read_deployment(path)
    wanted = Wanted.of(source.deployment, load_serve_app(source.serve_config_path))
    gatherer = Gatherer(Aws(source.deployment.region), wanted)
    snapshot = gatherer.look()
    written = write_bundle(folder, snapshot, judge(snapshot, wanted), gatherer, source.deployment)
    click.echo(f"diagnosis: {written} (secrets masked; read it before you share it)")


class BundleError(UserError):
    """The archive can't be written."""

    exit_code = 1


def write_bundle(
    folder: Path, snapshot: Snapshot, phases: list[Phase], gatherer: Gatherer, deployment: Deployment
) -> Path:
    """Writes the archive and returns its path. Raises BundleError."""
    from kvrelay.ops.cluster.masking import Masker

    masker = Masker(_own_credentials())
    unread = dict(snapshot.unread)
    cluster = _connection(gatherer, snapshot)
    if cluster:
        _learn_secrets(cluster, deployment, masker, unread)
    # Objects first: the values that they hold are then masked in the logs, too.
    parts = [*_objects(snapshot, masker, deployment), *_texts(snapshot, phases, masker)]
    if cluster:
        parts += _logs(cluster, snapshot, masker, unread)
    unseen = "".join(f"{what}: {reason}\n" for what, reason in unread.items())
    parts.append(("unread.txt", masker.text(unseen) or "all was read\n"))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = f"kvrelay-diagnosis-{deployment.name}-{stamp}"
    path = folder / f"{name}.tar.gz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for part, text in parts:
                _add(archive, f"{name}/{part}", text)
    except OSError as error:
        raise BundleError(f"the diagnosis can't be written to {folder}: {error.strerror}") from None
    return path


def _own_credentials() -> Iterator[str]:
    """The caller's own, in case a log holds them."""
    import boto3
    from botocore.exceptions import BotoCoreError

    with suppress(BotoCoreError):
        credentials = boto3.Session().get_credentials()
        frozen = credentials and credentials.get_frozen_credentials()
        if frozen:
            yield from filter(None, (frozen.access_key, frozen.secret_key, frozen.token))
    if token := os.environ.get("HF_TOKEN"):
        yield token


def _connection(gatherer: Gatherer, snapshot: Snapshot) -> Cluster | None:
    from botocore.exceptions import BotoCoreError, ClientError

    if not snapshot.readable:
        return None
    try:
        return gatherer.connection()
    except (UserError, BotoCoreError, ClientError):
        return None


def _learn_secrets(cluster: Cluster, deployment: Deployment, masker: Masker, unread: dict[str, str]) -> None:
    """Secrets are read to mask their values where they turn up; they are never written."""
    from kvrelay.ops.cluster import ClusterError

    try:
        for secret in cluster.list(f"/api/v1/namespaces/{deployment.serving.namespace}/secrets"):
            masker.learn_secret(secret)
    except ClusterError as error:
        unread["secrets (known forms are masked all the same)"] = str(error)


def _objects(snapshot: Snapshot, masker: Masker, deployment: Deployment) -> Iterator[tuple[str, str]]:
    import yaml

    kinds: dict[str, Any] = {
        "nodes": snapshot.nodes,
        "pods": snapshot.pods,
        "daemonsets": snapshot.daemon_sets,
        "deployments": snapshot.deployments,
        "rayservice": snapshot.ray_service,
        "deployment-file": deployment.model_dump(mode="json"),
    }
    for name, found in kinds.items():
        yield f"objects/{name}.yaml", yaml.safe_dump(masker.object(found), sort_keys=False, width=120)


def _texts(snapshot: Snapshot, phases: list[Phase], masker: Masker) -> Iterator[tuple[str, str]]:
    from kvrelay.ops.wait.snapshot import last_seen, message
    from kvrelay.ops.wait.view import line

    rows = [f"{snapshot.at:%Y-%m-%d %H:%M:%S} UTC"]
    for phase in phases:
        rows.append(line(phase))
        if phase.cause:
            rows += [f"  why: {phase.cause.said}", f"  mend: {phase.cause.mend}"]
            rows += [f"  | {each}" for each in phase.cause.evidence.splitlines()]
    yield "summary.txt", masker.text("\n".join(rows)) + "\n"
    events = sorted(snapshot.events, key=last_seen)
    yield "events.txt", masker.text("".join(_event_line(event, message(event)) for event in events))
    stacks = [f"{stack.name} {stack.status}\n" for stack in snapshot.stacks]
    for stack in snapshot.stacks:
        stacks += [
            f"{each.at:%H:%M:%S} {each.resource} {each.type}: {each.reason}\n" for each in stack.failures
        ]
    groups = [
        f"node group {each.name} {each.status}, {each.desired} wanted: {'; '.join(each.issues) or 'no issue'}\n"
        for each in snapshot.node_groups
    ]
    yield "aws.txt", masker.text("".join(stacks + groups))


def _event_line(event: Object, said: str) -> str:
    from kvrelay.ops.wait.snapshot import last_seen

    about = event.get("involvedObject") or event.get("regarding") or {}
    kind = event.get("type", "")
    times = f" (x{event['count']})" if event.get("count", 1) > 1 else ""
    return (
        f"{last_seen(event):%H:%M:%S} {kind} {event.get('reason', '')} "
        f"{about.get('kind', '')}/{about.get('name', '')}: {said}{times}\n"
    )


def _logs(
    cluster: Cluster, snapshot: Snapshot, masker: Masker, unread: dict[str, str]
) -> Iterator[tuple[str, str]]:
    from kvrelay.ops.cluster import ClusterError
    from kvrelay.ops.cluster.pod_scripts import tail_logs
    from kvrelay.ops.wait.cluster_phases import runs_since
    from kvrelay.ops.wait.snapshot import RAY_TYPE, label

    for pod in snapshot.pods:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        status = pod.get("status") or {}
        for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
            if "waiting" in (container.get("state") or {}) and not container.get("restartCount"):
                continue
            for previous in (False, True) if container.get("restartCount") else (False,):
                where = f"logs/{namespace}/{name}/{container['name']}{'.previous' if previous else ''}.log"
                try:
                    text = cluster.logs(
                        namespace, name, container["name"], lines=_LOG_LINES, previous=previous
                    )
                    yield where, masker.text(text)
                except ClusterError as error:
                    unread[where] = str(error)
        if label(pod, RAY_TYPE) and runs_since(pod):
            where = f"ray-logs/{name}.log"
            try:
                container_name = pod["spec"]["containers"][0]["name"]
                yield (
                    where,
                    masker.text(
                        cluster.run(namespace, name, container_name, tail_logs(_LOG_LINES), seconds=60)
                    ),
                )
            except ClusterError as error:
                unread[where] = str(error)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(content), 0o600, int(datetime.now(UTC).timestamp())
    archive.addfile(entry, io.BytesIO(content))
