"""kvrelay verify: proves that prefill and decode work together, on this machine or in the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.verify_cluster.report import Report
    from kvrelay.ops.verify_cluster.subject import Subject


@click.command()
@click.option("--target", type=click.Choice(["local", "eks"]), default="local", show_default=True)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@deployment_option
@click.option(
    "--report",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="eks: where the report is kept, as Markdown and JSON.",
)
@click.option("--reference-url", help="eks: an ordinary engine of the same model, for the right answers.")
@click.option("--restart", is_flag=True, help="eks: also end a decode worker; answers stop for minutes.")
@click.option("--yes", is_flag=True, help="Don't ask before --restart.")
@click.pass_context
def verify(
    context: click.Context,
    target: str,
    output: str,
    path: Path,
    folder: Path,
    reference_url: str | None,
    restart: bool,
    yes: bool,
) -> None:
    """Prove that prefill and decode work together, or say what does not hold.

    Greedy answers equal one ordinary engine's; every prompt's KV cache moved, in transfers of the right size; decode
    recomputed nothing; nothing failed or expired. On eks also: the two run on distinct nodes; each has EFA; NIXL uses
    LIBFABRIC and holds an EFA device; EFA's ports carried the bytes, faster than TCP; a restarted worker finds its
    weights. Nothing else may use the app meanwhile: its counters are of all requests.
    JSON of eks: {"deployment", "region", "at", "proved", "figures", "claims": [{"claim", "held", "saw"}],
    "not_shown": [{"claim", "why", "blocked"}]}.

    Exit codes: 0 every claim that was to be tried holds; 1 one does not, or could not be tried; 2 wrong input;
    130 interrupted.
    """
    from kvrelay.errors import UserError

    if target == "local":
        from kvrelay.ops.verify import verify as here

        given = {"target": target, "output": output}
        context.invoke(here, **{each.name: given[each.name] for each in here.params if each.name in given})
        return
    if restart and not yes:
        if output == "json":
            raise UserError("--output json cannot ask: add --yes to --restart")
        if not click.confirm(
            "--restart ends a decode worker: answers stop for minutes. Go on?", default=False
        ):
            click.echo("nothing was changed")
            raise click.exceptions.Exit(1)
    report = _prove(path, reference_url, restart, quiet=output == "json")
    kept = report.keep(folder)
    if output == "json":
        click.echo(report.as_json())
    else:
        _show(report)
        click.echo(f"report: {' and '.join(map(str, kept))}")
    if report.unproved:
        from kvrelay.ops.verify import NotProvedError

        raise NotProvedError(f"not proved: {'; '.join(report.unproved)}")


def _prove(path: Path, reference_url: str | None, restart: bool, *, quiet: bool) -> Report:
    from kvrelay.ops.endpoint import endpoint
    from kvrelay.ops.verify_cluster.proving import Proving

    reference = endpoint(reference_url) if reference_url else None
    say = (lambda line: None) if quiet else click.echo
    return Proving(subject_of(path), say, reference=reference, restart=restart).report()


def subject_of(path: Path) -> Subject:
    """The deployment's cluster. Raises UserError: no cluster, no credentials, no way in."""
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.errors import UserError
    from kvrelay.ops.cluster import connect, find_access
    from kvrelay.ops.endpoint.api_server import api_server
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.verify_cluster.subject import Subject
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    source = read_deployment(path)
    app = load_serve_app(source.serve_config_path)
    if not app.is_prefill_decode:
        raise UserError(
            f"{app.file}: prefill and decode are not apart in this app; there is no hand-over to prove"
        )
    try:
        access = find_access(Aws(source.deployment.region), source.deployment.name)
    except (BotoCoreError, ClientError) as error:
        raise UserError(f"AWS: {' '.join(str(error).split())[:300]}; sign in and try again") from None
    return Subject(connect(access), api_server(access), source.deployment, app)


def _show(report: Report) -> None:
    for figure in report.figures:
        click.echo(f"{figure.name}: {figure.value}")
    for verdict in report.verdicts:
        click.echo(f"{'holds' if verdict.held else 'FAILS'}  {verdict.claim}: {verdict.saw}")
    for each in report.not_shown:
        click.echo(f"{'COULD NOT' if each.blocked else 'not shown'}  {each.claim}: {each.why}")
