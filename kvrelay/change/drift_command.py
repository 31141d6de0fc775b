"""kvrelay drift: is what runs still what was deployed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvrelay.errors import UserError
from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.deploy import Caller


@click.command()
@deployment_option
@click.option("--output", type=click.Choice(["text", "json", "markdown"]), default="text", show_default=True)
@click.pass_context
def drift(context: click.Context, path: Path, output: str) -> None:
    """Ask CloudFormation which resources are no longer as they were deployed.

    Reads with the account's CDK lookup role when your credentials may take it, else with their own.

    Exit codes: 0 all as deployed; 1 something drifted; 2 wrong file, credentials or account.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.change.drift import as_json, as_markdown, as_text, detect
    from kvrelay.ops.deploy import STACKS, find_caller
    from kvrelay.settings import read_deployment

    deployment = read_deployment(path).deployment
    stacks = [f"{deployment.name}-{each}" for each in STACKS]
    try:
        found = detect(_reader(find_caller(deployment)), stacks)
    except (BotoCoreError, ClientError) as error:
        raise UserError(f"drift can't be asked for: {error}") from None
    click.echo({"json": as_json, "markdown": as_markdown, "text": as_text}[output](found))
    context.exit(1 if found.drifted else 0)


def _reader(caller: Caller) -> Any:
    """A CloudFormation client with the lookup role of CDK's bootstrap, which may read every resource."""
    import boto3
    from botocore.exceptions import ClientError

    partition = caller.identity.split(":")[1]
    role = f"cdk-hnb659fds-lookup-role-{caller.account}-{caller.region}"
    keys = {}
    try:
        taken = boto3.client("sts", region_name=caller.region).assume_role(
            RoleArn=f"arn:{partition}:iam::{caller.account}:role/{role}", RoleSessionName="kvrelay-drift"
        )["Credentials"]
        keys = {
            "aws_access_key_id": taken["AccessKeyId"],
            "aws_secret_access_key": taken["SecretAccessKey"],
            "aws_session_token": taken["SessionToken"],
        }
    except ClientError:
        pass  # These credentials may read for themselves.
    return boto3.client("cloudformation", region_name=caller.region, **keys)
