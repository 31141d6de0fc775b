"""kvrelay diff: what a change would do to what runs, before it is deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.change.effect import Effect
from kvrelay.errors import UserError

if TYPE_CHECKING:
    from kvrelay.settings import DeploymentFile

_GRAVE = [effect.label for effect in Effect if effect]


@click.command()
@click.argument("base", required=False, type=click.Path(path_type=Path))
@click.option(
    "--head",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Checkout with the change; here if left out.",
)
@click.option(
    "--deployment",
    type=click.Path(path_type=Path),
    default=Path("deployment.yaml"),
    show_default=True,
    help="The deployment file, inside each checkout.",
)
@click.option(
    "--deployed", is_flag=True, help="Compare with the stacks of your credentials' account instead."
)
@click.option(
    "--fail-on",
    type=click.Choice(_GRAVE),
    help="Exit with 10 + class when a change is of this class or graver.",
)
@click.option("--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.pass_context
def diff(
    context: click.Context,
    base: Path | None,
    head: Path,
    deployment: Path,
    deployed: bool,
    fail_on: str | None,
    output: str,
) -> None:
    """Say what a change means: in place, rolling, new Ray cluster, new nodes, or a loss.

    BASE is a checkout synthesized with `cdk synth` (its cdk.out and its deployment file are read);
    a bare cdk.out is enough where cost before and causes don't matter.

    Exit codes: 0 compared; with --fail-on 11 in-place, 12 rolling, 13 new-ray-cluster,
    14 node-replacement, 15 loss; 2 wrong input.
    """
    from kvrelay.change.comparison import compare
    from kvrelay.change.output import as_json, as_markdown, as_text
    from kvrelay.change.synthesis import read_deployed, read_synthesis
    from kvrelay.settings import read_deployment

    if (base is not None) == deployed:
        raise UserError("name a synthesized checkout to compare with, or give --deployed; one of the two")
    after = read_deployment(head / deployment)
    new = read_synthesis(head)
    before = None
    if base is None:
        old = read_deployed(new.templates, new.region or after.deployment.region)
        new = new.as_deployed()
    else:
        old = read_synthesis(base)
        if (base / deployment).is_file():
            before = _read_or_none(base / deployment)
    found = compare(old, new, before, after)
    click.echo({"json": as_json, "markdown": as_markdown, "text": as_text}[output](found))
    if fail_on and found.effect.label in _GRAVE[_GRAVE.index(fail_on) :]:
        context.exit(10 + found.effect)


def _read_or_none(file: Path) -> DeploymentFile | None:
    """The base's deployment file; None, said once, where this version can't read it any more."""
    from kvrelay.settings import read_deployment

    try:
        return read_deployment(file)
    except UserError as error:
        click.echo(f"causes and cost before are left out: {error}", err=True)
        return None
