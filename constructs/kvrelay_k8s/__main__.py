"""python -m kvrelay_k8s: writes every Kubernetes object of a deployment to dist/, one file a chart."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvrelay.errors import UserError
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import read_deployment


@click.command()
@click.option(
    "--deployment",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("deployment.yaml"),
    show_default=True,
)
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path("dist"), show_default=True
)
def manifests(deployment: Path, output: Path) -> None:
    """Write every Kubernetes object of a deployment as YAML, for GitOps or plain kubectl.

    They are the objects that the Serving stack applies.
    """
    source = read_deployment(deployment)
    app = load_serve_app(source.serve_config_path)
    # Here, after the files were found right: starting jsii takes seconds.
    from kvrelay_k8s.files import write_files
    from kvrelay_k8s.manifest_set import charts

    for path in write_files(charts(source.deployment, app), output):
        click.echo(path)


if __name__ == "__main__":
    try:
        manifests()
    except UserError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
