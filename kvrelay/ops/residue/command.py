"""kvrelay residue: shows what is left, and deletes it only when told to and after asking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.residue.leftover import Leftover
    from kvrelay.ops.residue.ownership import Owner


@click.command()
@deployment_option
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--delete", is_flag=True, help="Delete what was found, after showing it and asking.")
@click.option("--yes", is_flag=True, help="Don't ask.")
def residue(path: Path, output: str, delete: bool, yes: bool) -> None:
    """Find what a deployment left in the account, by tags and by name, with its price a month.

    Never lists what belongs to another deployment. Deletes nothing while a stack of the deployment stands; but a
    reservation that a killed preflight --probe left holds nothing of worth, and is cancelled without asking.
    JSON: {"deployment", "standing", "leftovers": [{"kind", "id", "name", "usd_per_month"}], "not_checked",
    "probes_cancelled", "deleted", "not_deleted"}.

    Exit codes: 0 nothing is left; 1 something is, or could not be checked; 2 wrong input; 130 interrupted.
    """
    from kvrelay.errors import UserError
    from kvrelay.ops.deploy import find_caller
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.residue.ownership import Owner
    from kvrelay.settings import read_deployment

    if delete and output == "json" and not yes:
        raise UserError("--output json cannot ask: add --yes to --delete")
    deployment = read_deployment(path).deployment
    find_caller(deployment)
    aws, owner = Aws(deployment.region), Owner(deployment.name)
    probes, unchecked = _cancel_probes(aws, owner)
    found, unseen = _find(aws, owner)
    unchecked |= unseen
    standing = _standing(aws, owner)
    if output == "text":
        for identifier in probes:
            click.echo(f"cancelled: {identifier}, which a preflight --probe that was killed left")
        _show(found, unchecked, standing, deployment.name)
    deleted: list[str] = []
    failed: dict[str, str] = {}
    mendable = [each for each in found if each.delete]
    if delete and mendable:
        if standing:
            raise UserError(f"{', '.join(standing)} still stands: run kvrelay destroy before --delete")
        if not yes and not click.confirm(f"Delete these {len(mendable)}?", default=False):
            click.echo("nothing was changed")
            raise click.exceptions.Exit(1)
        deleted, failed = _delete(mendable, quiet=output == "json")
    if output == "json":
        answer = {
            "deployment": deployment.name,
            "standing": standing,
            "leftovers": [each.as_dict() for each in found],
            "not_checked": unchecked,
            "probes_cancelled": probes,
            "deleted": deleted,
            "not_deleted": failed,
        }
        click.echo(json.dumps(answer, indent=2))
    if unchecked or failed or len(deleted) < len(mendable):
        raise click.exceptions.Exit(1)


def _cancel_probes(aws: Aws, owner: Owner) -> tuple[list[str], dict[str, str]]:
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.ops.preflight.probe_reservations import forgotten

    try:
        return forgotten(aws, owner.name), {}
    except (BotoCoreError, ClientError) as error:
        return [], {"probe's reservation": " ".join(str(error).split())[:300]}


def _find(aws: Aws, owner: Owner) -> tuple[list[Leftover], dict[str, str]]:
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.ops.residue.kinds import KINDS

    found: list[Leftover] = []
    unchecked: dict[str, str] = {}
    for name, kind in KINDS.items():
        try:
            found += kind(aws, owner)
        except (BotoCoreError, ClientError) as error:
            unchecked[name] = " ".join(str(error).split())[:300]
    return found, unchecked


def _standing(aws: Aws, owner: Owner) -> list[str]:
    """Stacks that are neither gone nor stuck on their way out."""
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.errors import UserError

    try:
        rows = list(aws.pages("cloudformation", "describe_stacks", "Stacks"))
    except (BotoCoreError, ClientError) as error:
        raise UserError(f"stacks: {' '.join(str(error).split())[:300]}; allow DescribeStacks") from None
    return [
        row["StackName"]
        for row in rows
        if row["StackName"] in owner.stacks and row["StackStatus"] not in ("DELETE_COMPLETE", "DELETE_FAILED")
    ]


def _show(found: list[Leftover], unchecked: dict[str, str], standing: list[str], name: str) -> None:
    for stack in standing:
        click.echo(f"{stack} stands: what is listed may be in use by it")
    for each in found:
        usd = "not known" if each.usd_per_month is None else f"{each.usd_per_month:.2f}"
        shown = f" ({each.name})" if each.name and each.name != each.id else ""
        click.echo(f"{usd:>10} USD/month  {each.kind}  {each.id}{shown}")
    for kind, reason in unchecked.items():
        click.echo(f"not checked: {kind}: {reason}")
    if found:
        total = sum(each.usd_per_month or 0 for each in found)
        click.echo(f"{len(found)} left of {name}; known prices add up to {total:.2f} USD/month")
    elif not unchecked:
        click.echo(f"nothing is left of {name}")


def _delete(found: list[Leftover], *, quiet: bool) -> tuple[list[str], dict[str, str]]:
    """In the order found. Each deletion is one call, so that an interrupt leaves nothing half deleted."""
    from botocore.exceptions import BotoCoreError, ClientError

    deleted: list[str] = []
    failed: dict[str, str] = {}
    for each in found:
        if each.delete is None:
            continue
        try:
            each.delete()
        except (BotoCoreError, ClientError) as error:
            failed[each.id] = " ".join(str(error).split())[:300]
            line = f"not deleted: {each.kind} {each.id}: {failed[each.id]}"
        else:
            deleted.append(each.id)
            line = f"deleted: {each.kind} {each.id}"
        if not quiet:
            click.echo(line)
    return deleted, failed
