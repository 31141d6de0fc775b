"""kvrelay deploy, destroy: `cdk` on the account of your credentials, after showing what it touches and costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kvrelay.errors import UserError
from kvrelay.ops.cdk_cli import run_cdk
from kvrelay.settings import Deployment, read_deployment
from kvrelay.settings.option import deployment_option

STACKS = ("network", "cluster", "serving", "ci")
"""What follows the deployment's name in its stacks' names; `ci` stands only where the deployment asks for it."""
_BOOTSTRAP_VERSION = "/cdk-bootstrap/hnb659fds/version"

_yes = click.option("--yes", is_flag=True, help="Don't ask.")


@dataclass(frozen=True)
class Caller:
    """Whose credentials these are, and where."""

    account: str
    identity: str
    region: str


@click.command()
@deployment_option
@_yes
def deploy(path: Path, yes: bool) -> None:
    """Deploy all stacks; shows account, region and cost first, and asks.

    Exit codes: 0 deployed; 1 cdk failed or you said no; 2 wrong file, credentials or account.
    """
    source = read_deployment(path)
    caller = find_caller(source.deployment)
    _require_bootstrap(caller)
    _show(caller, source.deployment)
    from kvrelay.planner.asked import footprint
    from kvrelay.planner.cost import cost

    bill = cost(footprint(source.deployment))
    for part in bill.parts:
        price = "price not known" if part.usd_per_hour is None else f"{part.usd_per_hour:8.4f} USD/h"
        click.echo(f"  {price}  {part.name}")
    total = "not known" if bill.usd_per_hour is None else f"{bill.usd_per_hour:.2f} USD/h"
    click.echo(f"cost: {total} at on-demand prices of {bill.date}, without traffic and logs")
    _ask(f"Deploy {source.deployment.name} there?", yes)
    run_cdk("deploy", "--all", "--require-approval", "never", deployment=path)
    click.echo("Deployed. The model comes up now; follow it with: kvrelay wait")


@click.command()
@deployment_option
@_yes
@click.pass_context
def destroy(context: click.Context, path: Path, yes: bool) -> None:
    """Destroy all stacks, serving first; shows what stands, asks, and ends with what kvrelay residue finds.

    Exit codes: 0 nothing is left; 1 cdk failed, something is left, or you said no; 2 wrong file, credentials or
    account.
    """
    from kvrelay.ops.residue.command import residue

    source = read_deployment(path)
    caller = find_caller(source.deployment)
    standing = _standing(source.deployment)
    _show(caller, source.deployment)
    if not standing:
        click.echo("none of its stacks stands there: nothing to destroy")
    else:
        for name, state in standing:
            click.echo(f"  stack {name}: {state}")
        _ask(f"Destroy {source.deployment.name} there?", yes)
        run_cdk("destroy", "--all", "--force", deployment=path)
    context.invoke(residue, path=path, output="text", delete=False, yes=False)


def find_caller(deployment: Deployment) -> Caller:
    """Asks AWS whose credentials these are. Raises UserError: none, expired, or of another account."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        identity = _client("sts", deployment.region).get_caller_identity()
    except (BotoCoreError, ClientError) as error:
        raise UserError(
            f"AWS credentials: {error}; sign in (aws sso login, or AWS_PROFILE=name) and try again"
        ) from None
    caller = Caller(identity["Account"], identity["Arn"], deployment.region)
    if deployment.account and deployment.account != caller.account:
        raise UserError(
            f"account: the file allows {deployment.account} only, these credentials are of {caller.account} "
            f"({caller.identity}); use credentials of {deployment.account}"
        )
    return caller


def _require_bootstrap(caller: Caller) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        _client("ssm", caller.region).get_parameter(Name=_BOOTSTRAP_VERSION)
    except ClientError as error:
        # Whoever may not read the parameter may still deploy: cdk itself says so where not.
        if error.response["Error"]["Code"] == "ParameterNotFound":
            raise UserError(
                f"{caller.account}/{caller.region} is not bootstrapped for CDK; "
                f"run once: cdk bootstrap aws://{caller.account}/{caller.region}"
            ) from None
    except BotoCoreError as error:
        raise UserError(f"CDK's bootstrap in {caller.region}: {error}; check region and network") from None


def _standing(deployment: Deployment) -> list[tuple[str, str]]:
    from botocore.exceptions import BotoCoreError, ClientError

    client, found = _client("cloudformation", deployment.region), []
    for stack in STACKS:
        name = f"{deployment.name}-{stack}"
        try:
            state = client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
        except ClientError as error:
            if "does not exist" in str(error):
                continue
            raise UserError(f"stack {name}: {error}; allow cloudformation:DescribeStacks") from None
        except BotoCoreError as error:
            raise UserError(f"stack {name}: {error}; check region and network") from None
        if state != "DELETE_COMPLETE":
            found.append((name, state))
    return found


def _show(caller: Caller, deployment: Deployment) -> None:
    click.echo(f"account: {caller.account} ({caller.identity})")
    click.echo(f"region: {caller.region}, GPU nodes in {deployment.gpu_nodes.zone}")


def _ask(question: str, yes: bool) -> None:
    if not yes and not click.confirm(question, default=False):
        click.echo("nothing was changed")
        raise click.exceptions.Exit(1)


def _client(service: str, region: str) -> Any:
    import boto3

    return boto3.client(service, region_name=region)
