"""The option that names the deployment file, alike in every command that takes one."""

from pathlib import Path

import click

deployment_option = click.option(
    "--deployment",
    "path",
    type=click.Path(path_type=Path),
    default=Path("deployment.yaml"),
    show_default=True,
    help="The deployment file.",
)
