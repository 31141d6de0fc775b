"""kvrelay local serve, status, stop, serving-environment: prefill and decode on this machine's CPU."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from kvrelay.local.serving import control
from kvrelay.local.serving.containment import containment
from kvrelay.local.serving.environment import PROJECT, build_environment, require_environment
from kvrelay.local.serving.session import (
    DEFAULT_ENDPOINT_PORT,
    DEFAULT_METRICS_PORT,
    Phase,
    SessionFolder,
)
from kvrelay.local.serving.target import rendered_here
from kvrelay.local.serving.tiny_model import tiny_model

STATE = PROJECT / ".kvrelay"


@click.command("serving-environment")
@click.option(
    "--wheels",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="A folder with torch's CPU wheel; may be given more than once.",
)
@click.option("--renew", is_flag=True, help="Build it anew even if it is there.")
def serving_environment(wheels: tuple[Path, ...], renew: bool) -> None:
    """Build .venv-serving: Ray Serve LLM, vLLM for CPU, torch and NIXL.

    Exit code 3: this machine can't run them.
    """
    built = build_environment(click.echo, wheels, renew)
    click.echo(f"serving environment: {built}")


@click.command()
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A portable Ray Serve config; default: the one that deployment.yaml names.",
)
@click.option("--port", default=DEFAULT_ENDPOINT_PORT, show_default=True, help="The endpoint's port.")
@click.option("--metrics-port", default=DEFAULT_METRICS_PORT, show_default=True, help="The engines' metrics.")
@click.option("--attach", is_flag=True, help="Stay until Ctrl-C, and stop the app then.")
def serve(config: Path | None, port: int, metrics_port: int, attach: bool) -> None:
    """Serve a portable config prefill/decode on this machine's CPU, with a tiny model.

    Returns when the app has answered. Ctrl-C before that stops all of it again.
    """
    interpreter = require_environment().interpreter
    model = tiny_model(interpreter, STATE / "models")
    app, rendered = rendered_here(config, model)
    click.echo(f"{app.file}, and for this machine:")
    for addition in rendered.additions:
        click.echo(f"  {addition}")
    serve_config(rendered.config, app.model_id, interpreter, port, metrics_port, attach)


def serve_config(
    rendered: dict[str, Any], model_id: str, interpreter: Path, port: int, metrics_port: int, attach: bool
) -> None:
    """Starts a rendered config and shows its progress until it is ready, or ends it again."""
    folder = SessionFolder(STATE / "serving")
    session = control.begin(folder, rendered, model_id, interpreter, port, metrics_port)
    click.echo(f"containment: {containment().describe()}")
    began = time.monotonic()
    try:
        for progress in control.follow(folder, session):
            states = " ".join(f"{name}={state}" for name, state in (progress.deployments or {}).items())
            click.echo(f"{time.monotonic() - began:4.0f} s  {progress.phase.value}  {states}".rstrip())
        click.echo(f"endpoint: {session.url}/v1  model: {model_id}  metrics: {session.metrics_url}")
        click.echo('try: kvrelay chat "Hello"; end it: kvrelay local stop')
        if attach:
            click.echo("Ctrl-C stops it")
            while session.alive:
                time.sleep(0.5)
            control.clear_stale(folder)
            raise control.ServingError(f"the session ended unexpectedly; see {folder.logs}")
    except KeyboardInterrupt:
        click.echo("stopping", err=True)
        control.stop(folder)
        raise


@click.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text")
def status(output: str) -> None:
    """Say what is served on this machine. Exit code 1 when nothing is."""
    folder = SessionFolder(STATE / "serving")
    session = folder.session()
    if session is not None and not session.alive:
        progress = folder.progress()
        reason = progress.detail if progress is not None and progress.phase is Phase.FAILED else ""
        control.clear_stale(folder)
        raise control.ServingError(
            f"the last session ended {'with: ' + reason if reason else 'unexpectedly'}; its logs: {folder.logs}"
        )
    if session is None:
        raise control.ServingError("nothing is served here; start with: kvrelay local serve")
    progress = folder.progress()
    phase = progress.phase if progress is not None else Phase.STARTING
    deployments = (progress.deployments if progress is not None else None) or {}
    if output == "json":
        click.echo(
            json.dumps(
                {
                    "phase": phase.name.lower(),
                    "model": session.model_id,
                    "url": session.url,
                    "metrics_url": session.metrics_url,
                    "isolated": session.isolated,
                    "supervisor": session.supervisor,
                    "deployments": deployments,
                }
            )
        )
        return
    click.echo(f"{session.model_id}: {phase.value}; endpoint {session.url}/v1")
    for name, state in deployments.items():
        click.echo(f"  {name}: {state}")


@click.command()
def stop() -> None:
    """End what is served on this machine, and all it left."""
    stopped = control.stop(SessionFolder(STATE / "serving"))
    click.echo("stopped" if stopped else "nothing was running")
