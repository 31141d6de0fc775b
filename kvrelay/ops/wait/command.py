"""kvrelay wait: the command line around the follower."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.wait.following import Followed
    from kvrelay.ops.wait.gathering import Gatherer
    from kvrelay.ops.wait.view import View
    from kvrelay.ops.wait.wanted import Wanted
    from kvrelay.settings import Deployment


@click.command()
@deployment_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=3600.0,
    show_default=True,
    help="Seconds after which it gives up.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=5.0,
    show_default=True,
    help="Seconds between two looks.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="Folder for the diagnosis that a failure leaves.",
)
def wait(path: Path, timeout: float, every: float, output: str, bundle: Path) -> None:
    """Follow a deployment to its first token, and say what it waits for.

    Shows each phase with the time so far and the usual one, and when one is late the cause in plain words with its
    mend. Can be started at any time: before, during or after kvrelay deploy. In a terminal one table renews itself;
    elsewhere each change is a line. It only looks, and asks the endpoint for two tokens at the end.

    JSON: a line {"phases": [{"phase", "state", "detail", "elapsed_s", "usual_s", "cause"}], "unread"} at each change,
    and at the end {"outcome": "served" | "failed" | "timed-out", "endpoint", "model", "bundle"}.

    Exit codes: 0 the model answers; 1 it will not, or not in time (a diagnosis is written); 2 wrong input or
    credentials; 130 interrupted.
    """
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.wait.following import Outcome, follow
    from kvrelay.ops.wait.gathering import Gatherer, serve_port
    from kvrelay.ops.wait.view import JsonView, LineView
    from kvrelay.ops.wait.wanted import Wanted
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    source = read_deployment(path)
    deployment = source.deployment
    wanted = Wanted.of(deployment, load_serve_app(source.serve_config_path))
    gatherer = Gatherer(Aws(deployment.region), wanted)
    with contextlib.ExitStack() as stack:
        view: View
        if output == "json":
            view = JsonView(click.echo)
        elif sys.stdout.isatty():
            from rich.console import Console

            from kvrelay.ops.wait.view import LiveView

            view = stack.enter_context(LiveView(f"{wanted.name} in {wanted.region}", Console(emoji=False)))
        else:
            view = LineView(click.echo)
        end = follow(gatherer.look, wanted, view, timeout=timeout, every=every)
    if end.outcome is Outcome.SERVED:
        _served(path, wanted, serve_port(end.snapshot), output)
        return
    _failed(end, gatherer, deployment, bundle, output)
    raise click.exceptions.Exit(1)


def _served(path: Path, wanted: Wanted, port: int, output: str) -> None:
    inside = f"http://{wanted.service}-serve-svc.{wanted.namespace}:{port}/v1"
    if output == "json":
        click.echo(
            json.dumps({"outcome": "served", "endpoint": inside, "model": wanted.model, "bundle": None})
        )
        return
    where = "" if path == Path("deployment.yaml") else f" --deployment {path}"
    click.echo(f"\n{wanted.model} answers.")
    click.echo(f"  in the cluster:  {inside}")
    click.echo(f"  from here:       kvrelay endpoint{where}   (then http://127.0.0.1:8000/v1)")
    click.echo(f'  try it:          kvrelay chat --deployment {path} "..."')


def _failed(end: Followed, gatherer: Gatherer, deployment: Deployment, bundle: Path, output: str) -> None:
    from kvrelay.ops.diagnose import write_bundle

    written = write_bundle(bundle, end.snapshot, end.phases, gatherer, deployment)
    if output == "json":
        answer = {"outcome": str(end.outcome), "endpoint": None, "model": None, "bundle": str(written)}
        click.echo(json.dumps(answer))
        return
    why = [phase for phase in end.phases if phase.cause]
    given_up = "it can't go on" if end.outcome == "failed" else "it did not come up in time"
    click.echo(f"\n{deployment.name}: {given_up}", err=True)
    for phase in why:
        assert phase.cause is not None
        click.echo(f"{phase.name}: {phase.cause.said}\n  mend: {phase.cause.mend}", err=True)
    if not why:
        under_way = [phase for phase in end.phases if phase.state in ("working", "late")]
        click.echo(
            f"it waited for: {', '.join(f'{each.name} ({each.detail})' for each in under_way)}", err=True
        )
    click.echo(f"diagnosis: {written} (secrets masked; read it before you share it)", err=True)
