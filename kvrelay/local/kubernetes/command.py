"""kvrelay local cluster: a real Kubernetes control plane on this machine, with simulated nodes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from kvrelay.data import versions
from kvrelay.errors import UserError
from kvrelay.local.kubernetes import ray_environment, supervisor, tools
from kvrelay.local.kubernetes.network import why_not_isolated


@click.group()
def cluster() -> None:
    """Run a real Kubernetes control plane on this machine, with simulated nodes."""


@cluster.command("tools")
@click.option("--check", is_flag=True, help="Build nothing; exit with 1 where something is missing.")
def tools_command(check: bool) -> None:
    """Build etcd, Kubernetes and the KubeRay operator from Go modules, and Ray's environment."""
    if not check:
        tools.build_missing(click.echo)
        ray_environment.make(click.echo)
    lacking = tools.missing()
    for tool in tools.TOOLS:
        state = "missing" if tool in lacking else str(tools.folder_of(tool))
        click.echo(f"{', '.join(tool.names)} {tool.version}: {state}")
    deployed = versions().kuberay
    if tools.KUBERAY.version != f"v{deployed}":
        click.echo(
            f"deployments run KubeRay {deployed}, whose Go module is not served: "
            f"the operator here is the newest that is, {tools.KUBERAY.version}"
        )
    made = ray_environment.is_made()
    click.echo(f"Ray's environment: {ray_environment.FOLDER if made else 'missing'}")
    if lacking or not made:
        raise click.exceptions.Exit(1)


@cluster.command()
@click.option(
    "--deployment",
    type=click.Path(path_type=Path),
    default=Path("deployment.yaml"),
    show_default=True,
    help="Whose nodes are simulated.",
)
def up(deployment: Path) -> None:
    """Start the cluster in the background, with the deployment's nodes."""
    if tools.missing():
        tools.program(tools.missing()[0].names[0])
    found = supervisor.up(deployment)
    click.echo(f"Kubernetes answers at {found.url} with {found.nodes} simulated nodes")
    if not found.isolated:
        click.echo(f"The KubeRay operator and Ray heads do not run: {why_not_isolated()}")
    click.echo(f"export KUBECONFIG={found.kubeconfig}")


@cluster.command()
def down() -> None:
    """End the cluster; what it held is gone."""
    click.echo("the local cluster has ended" if supervisor.down() else "no local cluster runs")


@cluster.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(output: str) -> None:
    """Say whether the cluster runs, and where."""
    found = supervisor.running()
    if output == "json":
        click.echo(json.dumps(asdict(found) if found else None))
    elif found:
        click.echo(f"runs at {found.url} with {found.nodes} simulated nodes; KUBECONFIG={found.kubeconfig}")
    else:
        raise UserError("no local cluster runs; start one with kvrelay local cluster up")
