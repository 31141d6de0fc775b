"""kvrelay local up, down: the whole product on this machine, from an empty account to an answer and back."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvrelay.errors import UserError
from kvrelay.local.aws import supervisor as aws
from kvrelay.ops.cdk_cli import cdk_lines
from kvrelay.settings import Deployment, read_deployment
from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.local.aws.account import KubernetesEndpoint
    from kvrelay.ops.engine_metrics import EngineCounts

# An event as the cdk CLI prints it: stack | done/all | time | status | type | path.
_EVENT = re.compile(r"\s*(\S+)\s*\|\s*(\d+(?:/\d+)?)\s*\|[^|]*\|\s*(\w+)\s*\|\s*(\S+)\s*\|\s*(.*)")
_NOISE = (
    "start: ",
    "success: ",
    "Hold on",
    "Including ",
    "Deployed",
    "Stack ARN",
    "[Information",
    "INFO ",
    "Acknowledge with",
)
_PROMPT = "Why do prefill and decode run on separate nodes?"
# Engines report to the node's metrics page every ten seconds or less.
_REPORT_SECONDS = 11


class LeftBehindError(UserError):
    """Something outlived its destroy."""

    exit_code = 1


@click.command()
@deployment_option
@click.option(
    "--serving/--no-serving", default=True, show_default=True, help="Also serve a tiny model on CPU."
)
def up(path: Path, serving: bool) -> None:
    """Deploy the whole app to an AWS emulated here, show what came of it, and get an answer from a tiny model.

    Run again, it deploys what changed. Nothing leaves this machine.
    """
    source = read_deployment(path)
    deployment = source.deployment
    account = _account(deployment, path)
    _deploy(account, path)
    _show_resources(account, deployment)
    if serving:
        _serve(source.serve_config_path)
    click.echo("\nto use the emulated account: kvrelay local aws status; to end all of it: make down")


@click.command()
@deployment_option
def down(path: Path) -> None:
    """Stop what is served, destroy the deployment, and show that nothing is left. Exit code 1 if anything is."""
    from kvrelay.local.kubernetes import supervisor as cluster
    from kvrelay.local.serving.command import STATE
    from kvrelay.local.serving.control import stop
    from kvrelay.local.serving.session import SessionFolder

    if stop(SessionFolder(STATE / "serving")):
        click.echo("the served model has stopped")
    account = aws.running()
    left: list[str] = []
    if account is None:
        click.echo("no emulated AWS runs")
    else:
        _heading("cdk destroy --all")
        _follow(account, path, "destroy", "--all", "--force")
        left = account.leftovers(bootstrap=False)
        click.echo("\n".join(left) or "nothing of the deployment is left in the account")
    if left:
        raise LeftBehindError(
            f"{len(left)} resources outlived the destroy; the account stays up to look at them"
        )
    if aws.down():
        click.echo("the emulated AWS has ended")
    if cluster.down():
        click.echo("the local Kubernetes has ended")


def _account(deployment: Deployment, path: Path) -> aws.Running:
    running = aws.running()
    if running and running.region != deployment.region:
        raise UserError(
            f"an emulated AWS already runs in {running.region}, the deployment is in {deployment.region}; "
            "end it first: kvrelay local aws down"
        )
    _heading("emulated AWS")
    account = running or aws.up(deployment.region, kubernetes=_kubernetes(path))
    where = (
        "a real Kubernetes on this machine" if account.real_kubernetes else "a store of Kubernetes objects"
    )
    click.echo(f"{account.endpoint}, region {account.region}; its EKS is {where}")
    return account


def _kubernetes(path: Path) -> KubernetesEndpoint | None:
    from kvrelay.local.aws.account import KubernetesEndpoint
    from kvrelay.local.kubernetes import supervisor as cluster
    from kvrelay.local.kubernetes import tools

    if tools.missing():
        click.echo("no real Kubernetes here yet; `make tools` builds one from source, in some minutes")
        return None
    found = cluster.up(path).endpoint()
    return KubernetesEndpoint(found.url, found.ca_pem, found.token)


def _deploy(account: aws.Running, path: Path) -> None:
    _heading("cdk bootstrap")
    _follow(account, path, "bootstrap")
    _heading("cdk deploy --all")
    _follow(account, path, "deploy", "--all", "--require-approval", "never", "--progress", "events")
    _heading("cdk diff, right after")
    _follow(account, path, "diff", "--fail")


def _follow(account: aws.Running, path: Path, *arguments: str) -> None:
    """Runs cdk and shows each resource when it is done, and whatever else it says."""
    began = time.monotonic()
    environment = account.environment() | {"CDK_VALIDATION": "false"}
    for line in cdk_lines(*arguments, deployment=path, environment=environment):
        event = _EVENT.match(line)
        if event:
            stack, done, state, kind, name = event.groups()
            if state.endswith(("_COMPLETE", "_FAILED")) and not state.endswith("CLEANUP_COMPLETE"):
                click.echo(f"{time.monotonic() - began:5.0f} s  {stack} {done:>6}  {state:16} {kind}  {name}")
        elif line.strip() and not line.strip().startswith(_NOISE):
            click.echo(line)


def _show_resources(account: aws.Running, deployment: Deployment) -> None:
    _heading("what exists now, asked through boto3")
    cloudformation, eks = account.client("cloudformation"), account.client("eks")
    for stack in ("network", "cluster", "serving"):
        name = f"{deployment.name}-{stack}"
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=name)
        count = sum(len(page["StackResourceSummaries"]) for page in pages)
        described = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
        click.echo(f"stack {name}: {described['StackStatus']}, {count} resources")
        for output in described.get("Outputs", ()):
            if "ExportName" not in output:
                click.echo(f"  {output['OutputKey']} = {output['OutputValue']}")
    cluster = eks.describe_cluster(name=deployment.name)["cluster"]
    click.echo(f"EKS cluster {cluster['name']}: Kubernetes {cluster['version']}, {cluster['status']}")
    for name in eks.list_nodegroups(clusterName=deployment.name)["nodegroups"]:
        group = eks.describe_nodegroup(clusterName=deployment.name, nodegroupName=name)["nodegroup"]
        click.echo(f"  node group {name}: {group['scalingConfig']['desiredSize']} nodes, {group['status']}")


def _serve(config: Path) -> None:
    """Serves prefill/decode on CPU, streams one answer and says how much KV cache moved for it."""
    from kvrelay.local.serving.command import STATE, serve_config
    from kvrelay.local.serving.environment import MachineError, build_environment
    from kvrelay.local.serving.session import DEFAULT_ENDPOINT_PORT, DEFAULT_METRICS_PORT, SessionFolder
    from kvrelay.local.serving.target import rendered_here
    from kvrelay.local.serving.tiny_model import tiny_model

    _heading("prefill and decode on this machine's CPU")
    try:
        environment = build_environment(click.echo, (), False)
    except MachineError as error:
        click.echo(f"not served here: {error}")
        return
    model = tiny_model(environment.interpreter, STATE / "models")
    session = SessionFolder(STATE / "serving").session()
    if session is None or not session.alive:
        app, rendered = rendered_here(config, model)
        serve_config(
            rendered.config,
            app.model_id,
            environment.interpreter,
            DEFAULT_ENDPOINT_PORT,
            DEFAULT_METRICS_PORT,
            False,
        )
    _answer()


def _answer() -> None:
    from kvrelay.local.serving.proof_target import local_target
    from kvrelay.ops.engine_metrics import EngineRole, engine_counts, scrape
    from kvrelay.ops.stream import Ending, stream

    target = local_target()

    def decode() -> EngineCounts | None:
        return engine_counts(scrape(target.endpoint.metrics_urls)).get(EngineRole.DECODE)

    before = _settled(decode)
    body: dict[str, Any] = {
        "model": target.model,
        "messages": [{"role": "user", "content": _PROMPT}],
        "max_tokens": 32,
        "temperature": 0.0,
    }

    async def ask() -> Any:
        async with target.endpoint.client() as client:
            return await stream(client, "/v1/chat/completions", body, lambda text: click.echo(text, nl=False))

    click.echo(f"\n> {_PROMPT}")
    answer = asyncio.run(ask())
    click.echo()
    if answer.ending is not Ending.WHOLE:
        raise UserError(f"the answer broke off: {answer.error or 'the connection ended'}")
    seen = _reported(decode, before.transfers if before else 0)
    moved = 0.0
    if seen is not None:
        since = seen.since(before) if before is not None else seen
        moved = since.prompt_tokens.get("external_kv_transfer", 0)
    click.echo(
        f"{answer.prompt_tokens} tokens in, {answer.completion_tokens} out (a tiny model with random weights: "
        f"the words mean nothing, the road is real); {moved * target.geometry.bytes_per_token / 1024:.0f} KiB of "
        f"KV cache for {moved:.0f} prompt tokens moved from prefill to decode over NIXL"
    )


def _settled(read: Callable[[], EngineCounts | None]) -> EngineCounts | None:
    """The engines' counts once they rest: the requests that warmed them up show a report later."""
    counts = read()
    while True:
        time.sleep(_REPORT_SECONDS)
        newer = read()
        if newer == counts:
            return counts
        counts = newer


def _reported(read: Callable[[], EngineCounts | None], transfers: float) -> EngineCounts | None:
    """The engines' counts once they show more than `transfers`, or what they are when that takes too long."""
    deadline = time.monotonic() + 3 * _REPORT_SECONDS
    while True:
        counts = read()
        if (counts is not None and counts.transfers > transfers) or time.monotonic() > deadline:
            return counts
        time.sleep(1)


def _heading(text: str) -> None:
    click.secho(f"\n== {text}", bold=True)
