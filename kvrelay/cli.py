"""The kvrelay command line: finds each command where it lives, turns errors into a line and an exit code."""

from __future__ import annotations

import sys

import click

from kvrelay.errors import UserError
from kvrelay.lazy_group import LazyGroup

# Each command lives beside what it commands and is imported only when named, so that starting stays quick.
COMMANDS = {
    "bench": "kvrelay.bench.command:bench",
    "chat": "kvrelay.ops.chat:chat",
    "check": "kvrelay.rules.command:check",
    "data": "kvrelay.data.command:data",
    "deploy": "kvrelay.ops.deploy:deploy",
    "destroy": "kvrelay.ops.deploy:destroy",
    "diagnose": "kvrelay.ops.diagnose:diagnose",
    "diff": "kvrelay.change.command:diff",
    "drift": "kvrelay.change.drift_command:drift",
    "endpoint": "kvrelay.ops.endpoint.command:endpoint",
    "local": "kvrelay.local.command:local",
    "mirror": "kvrelay.ops.mirror:mirror",
    "plan": "kvrelay.planner.command:plan",
    "preflight": "kvrelay.ops.preflight.command:preflight",
    "render": "kvrelay.serve_app.command:render",
    "residue": "kvrelay.ops.residue.command:residue",
    "schema": "kvrelay.settings.command:schema",
    "status": "kvrelay.ops.status:status",
    "verify": "kvrelay.ops.verify_cluster.command:verify",
    "wait": "kvrelay.ops.wait.command:wait",
}


@click.command(
    cls=LazyGroup, lazy_commands=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="kvrelay")
def cli() -> None:
    """Serve one language model on Amazon EKS, prefill and decode on separate GPU nodes.

    Exit codes: 0 all is well; 1 a check found something; 2 wrong input; 130 interrupted.
    """


def main() -> None:
    """Runs the command line; the only place where an error becomes text on stderr and an exit code."""
    try:
        sys.exit(cli.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UserError as error:
        click.echo(str(error), err=True)
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        sys.exit(130)
