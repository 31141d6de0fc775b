"""kvrelay local aws: an AWS account on loopback that the real cdk, SDKs and the AWS CLI can use."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict

import click

from kvrelay.data.regions import known_regions
from kvrelay.errors import UserError
from kvrelay.local.aws import supervisor


@click.group()
def aws() -> None:
    """Run an AWS account on this machine; it forgets everything when it ends."""


@aws.command()
@click.option("--region", default="us-east-2", show_default=True, type=click.Choice(known_regions()))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port it listens on; 0, the default, takes any free one.",
)
def up(region: str, port: int) -> None:
    """Start it in the background, empty. Where one runs already, that one stays."""
    _show(supervisor.up(region, port=port))


@aws.command()
def down() -> None:
    """End it; what it held is gone."""
    click.echo("the emulated AWS has ended" if supervisor.down() else "no emulated AWS runs")


@aws.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(output: str) -> None:
    """Say whether it runs, and how to use it. Exit code 2 when it doesn't."""
    found = supervisor.running()
    if output == "json":
        click.echo(json.dumps(asdict(found) if found else None))
    else:
        _show(_required())


@aws.command()
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def leftovers(output: str) -> None:
    """List every resource in it. Exit code 1 when there is any."""
    found = _required().leftovers()
    click.echo(json.dumps(found) if output == "json" else "\n".join(found) or "it is empty")
    if found:
        raise click.exceptions.Exit(1)


def _required() -> supervisor.Running:
    found = supervisor.running()
    if found is None:
        raise UserError("no emulated AWS runs; start one with: kvrelay local aws up")
    return found


def _show(found: supervisor.Running) -> None:
    click.echo(f"# an emulated AWS answers at {found.endpoint}; to use it in this shell:")
    for name, value in found.environment().items():
        click.echo(f"export {name}={shlex.quote(value)}")
