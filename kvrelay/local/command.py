"""kvrelay local: the whole product on this machine, without an AWS account."""

import click

from kvrelay.lazy_group import LazyGroup

COMMANDS = {
    "aws": "kvrelay.local.aws.command:aws",
    "cluster": "kvrelay.local.kubernetes.command:cluster",
    "down": "kvrelay.local.up:down",
    "serve": "kvrelay.local.serving.command:serve",
    "serving-environment": "kvrelay.local.serving.command:serving_environment",
    "status": "kvrelay.local.serving.command:status",
    "stop": "kvrelay.local.serving.command:stop",
    "up": "kvrelay.local.up:up",
}


@click.command(cls=LazyGroup, lazy_commands=COMMANDS)
def local() -> None:
    """Run the product on this machine: emulated AWS, Kubernetes, prefill and decode on CPU."""
