"""kvrelay status: a deployment on one screen: versions, nodes, replicas, endpoint, KV transfers, spend."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.engine_metrics import EngineCounts, EngineRole, Sample
    from kvrelay.ops.wait.gathering import Gatherer
    from kvrelay.ops.wait.snapshot import Snapshot
    from kvrelay.ops.wait.wanted import Wanted
    from kvrelay.settings import Deployment


@dataclass(frozen=True)
class Transfers:
    """KV caches handed from prefill to decode since the engines started."""

    count: int
    failed: int
    expired: int
    tokens: int
    """Prompt tokens that decode took from prefill."""
    recomputed: int
    """Prompt tokens that decode computed itself."""

    @property
    def healthy(self) -> bool:
        """Nothing failed, and nothing waits for a reader that does not come."""
        return not self.failed and not self.expired


@dataclass(frozen=True)
class Status:
    """The screen's content. What could not be read is None or empty, and named in `unread`."""

    deployment: str
    region: str
    ready: bool
    versions: dict[str, str]
    stacks: dict[str, str]
    nodes: list[dict[str, Any]]
    replicas: dict[str, str]
    endpoint: str
    transfers: Transfers | None
    usd_per_hour: float | None
    usd_since_deploy: float | None
    hours: float | None
    problems: list[dict[str, str]]
    unread: dict[str, str]


@click.command()
@deployment_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(path: Path, output: str) -> None:
    """Show a deployment on one screen: versions, nodes, replicas, endpoint, KV transfers, spend.

    It only looks, and asks the endpoint for two tokens. Spend is the price list's, for the hours since the Cluster
    stack was made, without traffic and logs. JSON: {"deployment", "region", "ready", "versions", "stacks", "nodes",
    "replicas", "endpoint", "transfers", "usd_per_hour", "usd_since_deploy", "hours", "problems", "unread"}.

    Exit codes: 0 it serves; 1 it does not, or a transfer failed; 2 wrong input or credentials; 130 interrupted.
    """
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.wait.gathering import Gatherer
    from kvrelay.ops.wait.wanted import Wanted
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    source = read_deployment(path)
    wanted = Wanted.of(source.deployment, load_serve_app(source.serve_config_path))
    gatherer = Gatherer(Aws(source.deployment.region), wanted)
    snapshot = gatherer.look()
    moved = transfers(read_metrics(gatherer, snapshot))
    unread = {**gatherer.unread, **snapshot.unread}  # the snapshot's are masked
    found = status_of(snapshot, wanted, source.deployment, moved, unread)
    if output == "json":
        click.echo(json.dumps(asdict(found), indent=2, default=str))
    else:
        _show(found)
    if not found.ready or (found.transfers and not found.transfers.healthy):
        raise click.exceptions.Exit(1)


def status_of(
    snapshot: Snapshot,
    wanted: Wanted,
    deployment: Deployment,
    moved: Transfers | None,
    unread: dict[str, str],
) -> Status:
    """One snapshot as a status."""
    from kvrelay.ops.wait.cluster_phases import EFA, GPU
    from kvrelay.ops.wait.judging import judge, served
    from kvrelay.ops.wait.snapshot import holds, label, name_of

    phases = judge(snapshot, wanted)
    nodes = [
        {
            "name": name_of(node),
            "role": label(node, "role"),
            "type": label(node, "node.kubernetes.io/instance-type"),
            "zone": label(node, "topology.kubernetes.io/zone"),
            "ready": holds(node, "Ready"),
            "gpus": int(_allocatable(node, GPU)),
            "efa": int(_allocatable(node, EFA)),
        }
        for node in sorted(snapshot.nodes, key=lambda node: (label(node, "role"), name_of(node)))
    ]
    hourly, hours = _spend(deployment), _hours(snapshot, wanted)
    return Status(
        deployment=wanted.name,
        region=wanted.region,
        ready=served(phases),
        versions=_versions(snapshot, deployment),
        stacks={stack.name: stack.status for stack in snapshot.stacks},
        nodes=nodes,
        replicas=_replicas(snapshot),
        endpoint=_endpoint(snapshot, wanted),
        transfers=moved,
        usd_per_hour=hourly,
        usd_since_deploy=None if hourly is None or hours is None else round(hourly * hours, 2),
        hours=None if hours is None else round(hours, 2),
        problems=[
            {"phase": phase.name, "cause": phase.cause.said, "mend": phase.cause.mend}
            for phase in phases
            if phase.cause
        ],
        unread=dict(unread),
    )


def read_metrics(gatherer: Gatherer, snapshot: Snapshot) -> list[Sample]:
    """What the engines' nodes report, asked in each worker that runs; what can't be read is noted."""
    from kvrelay.errors import UserError
    from kvrelay.ops.cluster.masking import Masker
    from kvrelay.ops.cluster.pod_scripts import METRICS
    from kvrelay.ops.engine_metrics import parse
    from kvrelay.ops.wait.cluster_phases import runs_since
    from kvrelay.ops.wait.snapshot import name_of

    samples: list[Sample] = []
    for pod in snapshot.workers():
        if not runs_since(pod):
            continue
        try:
            container = pod["spec"]["containers"][0]["name"]
            text = gatherer.connection().run(gatherer.wanted.namespace, name_of(pod), container, METRICS)
            samples += parse(text)
        except (UserError, ValueError) as error:
            gatherer.unread["engines' metrics"] = Masker().text(str(error))
    return samples


def transfers(samples: list[Sample]) -> Transfers | None:
    """The hand-over's counts; None where no engine reports."""
    from kvrelay.ops.engine_metrics import EngineRole, engine_counts

    counts: dict[EngineRole, EngineCounts] = engine_counts(samples)
    if not counts:
        return None
    decode = counts.get(EngineRole.DECODE)
    tokens = decode.prompt_tokens if decode else {}
    return Transfers(
        count=round(sum(each.transfers for each in counts.values())),
        failed=round(sum(each.failed_transfers + each.failed_notifications for each in counts.values())),
        expired=round(sum(each.expired_requests for each in counts.values())),
        tokens=round(tokens.get("external_kv_transfer", 0)),
        recomputed=round(tokens.get("local_compute", 0)),
    )


def _allocatable(node: dict[str, Any], resource: str) -> str:
    return str(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0))


def _versions(snapshot: Snapshot, deployment: Deployment) -> dict[str, str]:
    from kvrelay.data import container_versions, known_container_tags
    from kvrelay.ops.wait.snapshot import name_of

    found = {"image": deployment.serving.image}
    kubelets = {
        (node.get("status") or {}).get("nodeInfo", {}).get("kubeletVersion") for node in snapshot.nodes
    }
    found["kubernetes"] = ", ".join(sorted(filter(None, kubelets))) or deployment.cluster.kubernetes_version
    for each in snapshot.deployments:
        if name_of(each) == "kuberay-operator":
            image = str(each["spec"]["template"]["spec"]["containers"][0]["image"])
            found["kuberay"] = image.rpartition(":")[2]
    tag = deployment.serving.image.rpartition(":")[2]
    if tag in known_container_tags():
        inside = container_versions(tag)
        found |= {"ray": inside.ray, "vllm": inside.vllm, "nixl": inside.nixl}
    return found


def _replicas(snapshot: Snapshot) -> dict[str, str]:
    """Each Serve deployment's state, and each worker group's ready pods."""
    from kvrelay.ops.wait.snapshot import RAY_GROUP, holds, label

    count, ready = Counter[str](), Counter[str]()
    for pod in snapshot.workers():
        count[label(pod, RAY_GROUP)] += 1
        ready[label(pod, RAY_GROUP)] += holds(pod, "Ready")
    found = {f"{group} pods": f"{ready[group]} of {pods} ready" for group, pods in count.items()}
    status = (snapshot.ray_service or {}).get("status") or {}
    for app in ((status.get("activeServiceStatus") or {}).get("applicationStatuses") or {}).values():
        for name, each in (app.get("serveDeploymentStatuses") or {}).items():
            found[name] = str(each.get("status", ""))
    return found


def _endpoint(snapshot: Snapshot, wanted: Wanted) -> str:
    answer = snapshot.answer
    if answer is None:
        return "not asked: the engines do not run"
    if answer.token:
        return f"{wanted.model} answers"
    return answer.error or f"lists {', '.join(answer.models)}, gives no answer"


def _hours(snapshot: Snapshot, wanted: Wanted) -> float | None:
    began: datetime | None = next(
        (each.created for each in snapshot.stacks if each.name == f"{wanted.name}-cluster"), None
    )
    return None if began is None else max(0.0, (snapshot.at - began).total_seconds() / 3600)


def _spend(deployment: Deployment) -> float | None:
    from kvrelay.planner.asked import footprint
    from kvrelay.planner.cost import cost

    usd = cost(footprint(deployment)).usd_per_hour
    return None if usd is None else round(usd, 4)


def _show(found: Status) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold", no_wrap=True)
    rows.add_column()
    state = Text("serves", style="green") if found.ready else Text("does not serve", style="red")
    rows.add_row(found.deployment, Text.assemble(f"{found.region}: ", state))
    rows.add_row("versions", Text(", ".join(f"{name} {value}" for name, value in found.versions.items())))
    stacks = ", ".join(f"{name} {value}" for name, value in found.stacks.items())
    rows.add_row("stacks", Text(stacks or "none stands"))
    for index, node in enumerate(found.nodes):
        devices = f", {node['gpus']} GPU, {node['efa']} EFA" if node["role"] == "gpu-worker" else ""
        words = f"{node['name']}  {node['role']}  {node['type']}  {node['zone']}{devices}"
        rows.add_row("" if index else "nodes", Text(words + ("" if node["ready"] else "  NOT READY")))
    for index, (name, value) in enumerate(found.replicas.items()):
        rows.add_row("" if index else "replicas", Text(f"{name}: {value}"))
    rows.add_row("endpoint", Text(found.endpoint))
    rows.add_row("KV transfers", Text(_transfer_words(found.transfers)))
    rows.add_row("spend", Text(_spend_words(found)))
    for problem in found.problems:
        rows.add_row("problem", Text(f"{problem['phase']}: {problem['cause']}\n  mend: {problem['mend']}"))
    for what, reason in found.unread.items():
        rows.add_row("not seen", Text(f"{what}: {reason}"))
    Console(emoji=False).print(rows)


def _transfer_words(moved: Transfers | None) -> str:
    if moved is None:
        return "no engine reports"
    health = (
        "healthy"
        if moved.healthy
        else f"{moved.failed} FAILED, {moved.expired} expired: answers may be wrong"
    )
    return (
        f"{moved.count} since start, {health}; decode took {moved.tokens} prompt tokens from prefill and computed "
        f"{moved.recomputed} itself"
    )


def _spend_words(found: Status) -> str:
    if found.usd_per_hour is None:
        return "price not known"
    if found.usd_since_deploy is None:
        return f"{found.usd_per_hour:.2f} USD/h when deployed"
    return f"{found.usd_per_hour:.2f} USD/h, about {found.usd_since_deploy:.2f} USD in {found.hours:.2g} h"
