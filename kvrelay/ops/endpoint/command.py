"""kvrelay endpoint: the model's endpoint inside the cluster, on this machine's loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.endpoint.forward import Forward
    from kvrelay.settings import Deployment


@click.command()
@deployment_option
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Of loopback; 0: any free one.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def endpoint(path: Path, port: int, output: str) -> None:
    """Bring the model's endpoint to this machine, until Ctrl-C.

    Listens on loopback only and forwards each connection through the cluster's API to a pod that is ready. When that
    pod goes, new connections go to another one; while none is ready, requests are told so. kvrelay chat finds the
    endpoint by itself while this runs. JSON: a line {"url", "service", "deployment"}, and {"event"} at each change.

    Exit codes: 1 the cluster can't be reached; 2 wrong input, or no cluster; 130 ended by Ctrl-C.
    """
    from kvrelay.ops.endpoint.address import Endpoint
    from kvrelay.settings import read_deployment

    deployment = read_deployment(path).deployment

    def say(line: str) -> None:
        click.echo(json.dumps({"event": line}) if output == "json" else line, err=output == "text")

    forward = forward_to(deployment, port=port, say=say)
    service = f"{deployment.serving.namespace}/{serve_service(deployment)}"

    def started() -> None:
        if output == "json":
            click.echo(json.dumps({"url": forward.url, "service": service, "deployment": deployment.name}))
        else:
            click.echo(f"endpoint: {forward.url}/v1 is {service} of {deployment.name}; Ctrl-C ends it")
        Endpoint(forward.url).announce()

    try:
        asyncio.run(forward.run(started))
    finally:
        if forward.port:
            Endpoint(forward.url).withdraw()


def forward_to(
    deployment: Deployment, *, port: int = 0, say: Callable[[str], None] = lambda line: None
) -> Forward:
    """A forward to the deployment's Serve service. Raises UserError: no cluster, no credentials, or no way in."""
    from kvrelay.ops.cluster import connect, reach
    from kvrelay.ops.endpoint.api_server import api_server
    from kvrelay.ops.endpoint.backends import NoBackendError, ServicePods
    from kvrelay.ops.endpoint.forward import Forward

    access = reach(deployment.region, deployment.name)
    backends = ServicePods(connect(access), deployment.serving.namespace, serve_service(deployment))
    with contextlib.suppress(NoBackendError):  # it may come: the forward waits for it, and says so
        backends.ready()
    return Forward(api_server(access), backends, port=port, say=say)


def serve_service(deployment: Deployment) -> str:
    """The Service that KubeRay makes of the pods that serve."""
    return f"{deployment.serving.service_name}-serve-svc"
