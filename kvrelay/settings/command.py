"""kvrelay schema: the JSON schema of deployment.yaml, for editors."""

import json

import click

from kvrelay.settings import Deployment


@click.command()
def schema() -> None:
    """Print the JSON schema of deployment.yaml.

    Editors complete the file with it: the first line of deployment.yaml names
    deployment.schema.json, which `kvrelay schema > deployment.schema.json` renews.
    """
    click.echo(json.dumps(Deployment.model_json_schema(), indent=2))
