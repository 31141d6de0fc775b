"""kvrelay render: the final Serve config for a target, with what was added and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kvrelay.serve_app.app import ServeApp
from kvrelay.serve_app.loading import load_serve_app
from kvrelay.serve_app.rendering import Addition, Target
from kvrelay.serve_app.rendering import render as render_app
from kvrelay.serve_app.targets import Cpu, Efa, Loopback
from kvrelay.settings import read_deployment
from kvrelay.yaml_source import path_text


@click.command()
@click.argument("serve_config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--target",
    type=click.Choice(["efa", "loopback", "cpu"]),
    default="efa",
    show_default=True,
    help="EFA nodes on EKS, GPUs of one host, or CPU.",
)
@click.option(
    "--deployment",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("deployment.yaml"),
    show_default=True,
    help="Names the serve config, and the nodes of target efa.",
)
@click.option("--model-source", help="Take the weights from here instead (a path or a Hugging Face id).")
@click.option("--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(
    serve_config: Path | None, target: str, deployment: Path, model_source: str | None, output: str
) -> None:
    """Print the final Serve config for a target, and what was added to the file and why.

    SERVE_CONFIG is the deployment's own when left out. The output is valid for
    `serve run`: what was added stands in comments above it.
    """
    source = read_deployment(deployment) if serve_config is None or target == "efa" else None
    if serve_config is None:
        assert source is not None
        serve_config = source.serve_config_path
    app = load_serve_app(serve_config)
    chosen: Target
    if target == "efa":
        assert source is not None
        chosen = Efa.of(app, source.deployment, model_source)
    else:
        chosen = Loopback(model_source) if target == "loopback" else Cpu(model_source)
    rendered = render_app(app, chosen)
    if output == "json":
        additions = [_as_json(addition) for addition in rendered.additions]
        click.echo(
            json.dumps({"target": target, "config": rendered.config, "additions": additions}, indent=2)
        )
    else:
        click.echo(_heading(app, target, rendered.additions) + rendered.text, nl=False)


def _heading(app: ServeApp, target: str, additions: tuple[Addition, ...]) -> str:
    first = f"# {app.file} for target {target}"
    if not additions:
        return f"{first}: nothing to add.\n"
    return "".join(f"{line}\n" for line in (f"{first}. Added:", *(f"#   {each}" for each in additions)))


def _as_json(addition: Addition) -> dict[str, Any]:
    return {
        "path": path_text(addition.path),
        "value": addition.value,
        "reason": addition.reason,
        "removed": addition.removed,
        "replaced": addition.replaced,
    }
