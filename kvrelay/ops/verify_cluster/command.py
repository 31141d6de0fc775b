"""kvrelay verify: proves that prefill and decode work together, on this machine or in the cluster."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.proof import Verdict
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
def verify(
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
    JSON: {"proved", "claims": [{"claim", "held", "saw"}]}; of eks also {"deployment", "region", "at", "figures",
    "not_shown": [{"claim", "why", "blocked"}]}.

    Exit codes: 0 every claim that was to be tried holds; 1 one does not, or could not be tried; 2 wrong input;
    130 interrupted.
    """
    quiet = output == "json"
    if target == "local":
        _raise_for(_prove_here(quiet))
        return
    from kvrelay.ops.verify_cluster.report import check_folder

    _may_restart(restart and not yes, quiet)
    check_folder(folder)
    report = _prove(path, reference_url, restart, quiet)
    kept = report.keep(folder)
    if quiet:
        click.echo(report.as_json())
    else:
        _show(report)
        click.echo(f"report: {' and '.join(map(str, kept))}")
    _raise_for(report.unproved)


def _raise_for(unproved: Sequence[str]) -> None:
    from kvrelay.ops.verify import NotProvedError

    if unproved:
        raise NotProvedError(f"not proved: {'; '.join(unproved)}")


def _prove_here(quiet: bool) -> list[str]:
    """Proves the app served on this machine and shows what was seen; the claims that did not hold."""
    from kvrelay.ops.verify import prove

    # Looked up when asked for: what serves on this machine is not this module's business.
    target = importlib.import_module("kvrelay.local.serving.proof_target").local_target()
    found = prove(target, _sayer(quiet))
    failed = [verdict.claim for verdict in found if not verdict.held]
    if quiet:
        click.echo(json.dumps({"proved": not failed, "claims": [asdict(each) for each in found]}, indent=2))
    else:
        _show_verdicts(found)
    return failed


def _may_restart(must_ask: bool, quiet: bool) -> None:
    from kvrelay.errors import UserError

    if must_ask and quiet:
        raise UserError("--output json cannot ask: add --yes to --restart")
    question = "--restart ends a decode worker: answers stop for minutes. Go on?"
    if must_ask and not click.confirm(question, default=False):
        click.echo("nothing was changed")
        raise click.exceptions.Exit(1)


def _prove(path: Path, reference_url: str | None, restart: bool, quiet: bool) -> Report:
    from kvrelay.ops.endpoint import endpoint
    from kvrelay.ops.verify_cluster.proving import Proving

    reference = endpoint(reference_url) if reference_url else None
    return Proving(subject_of(path), _sayer(quiet), reference=reference, restart=restart).report()


def subject_of(path: Path) -> Subject:
    """The deployment's cluster. Raises UserError: no cluster, no credentials, no way in."""
    from kvrelay.errors import UserError
    from kvrelay.ops.cluster import connect, reach
    from kvrelay.ops.endpoint.api_server import api_server
    from kvrelay.ops.verify_cluster.subject import Subject
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    source = read_deployment(path)
    app = load_serve_app(source.serve_config_path)
    if not app.is_prefill_decode:
        raise UserError(
            f"{app.file}: prefill and decode are not apart in this app; there is no hand-over to prove"
        )
    access = reach(source.deployment.region, source.deployment.name)
    return Subject(connect(access), api_server(access), source.deployment, app)


def _show(report: Report) -> None:
    for figure in report.figures:
        click.echo(f"{figure.name}: {figure.value}")
    _show_verdicts(report.verdicts)
    for each in report.not_shown:
        click.echo(f"{'COULD NOT' if each.blocked else 'not shown'}  {each.claim}: {each.why}")


def _show_verdicts(verdicts: Sequence[Verdict]) -> None:
    for verdict in verdicts:
        click.echo(f"{'holds' if verdict.held else 'FAILS'}  {verdict.claim}: {verdict.saw}")


def _sayer(quiet: bool) -> Callable[[str], None]:
    return (lambda line: None) if quiet else click.echo
