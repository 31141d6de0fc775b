"""kvrelay preflight: the command line around the checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvrelay.settings.option import deployment_option

if TYPE_CHECKING:
    from kvrelay.ops.preflight.rows import Row, Subject

_COLOURS = {"pass": "green", "warn": "yellow", "fail": "red"}


@click.command()
@deployment_option
@click.option("--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--zones", is_flag=True, help="Rank the region's zones, and print the lines for the file.")
@click.option(
    "--probe",
    is_flag=True,
    help="Also ask each zone for the GPU nodes: reserve them and cancel at once. Says the price and asks first.",
)
@click.option("--yes", is_flag=True, help="Don't ask.")
def preflight(path: Path, output: str, zones: bool, probe: bool, yes: bool) -> None:
    """Check account, quotas, zones, versions, image, capacity and model before anything is created.

    Nothing is made or changed, but for --probe: it reserves capacity for seconds. A reservation that a killed probe
    left is cancelled by the next run, or by kvrelay residue, and ends by itself within two hours.
    A call that AWS denies, throttles or does not answer is a row of its own.
    JSON: {"deployment", "region", "ok", "rows": [{"check", "subject", "status", "found", "mend"}]}.

    Exit codes: 0 nothing failed; 1 a check failed; 2 wrong input; 130 interrupted.
    """
    from kvrelay.errors import UserError
    from kvrelay.ops.preflight.aws import Aws
    from kvrelay.ops.preflight.rows import Subject
    from kvrelay.serve_app import load_serve_app
    from kvrelay.settings import read_deployment

    if probe and output == "json" and not yes:
        raise UserError("--output json cannot ask: add --yes to --probe")
    source = read_deployment(path)
    model = load_serve_app(source.serve_config_path).model_source
    subject = Subject(source, Aws(source.deployment.region), model)
    if zones:
        _zones(subject, output)
        return
    from kvrelay.ops.preflight.probing import probe_rows
    from kvrelay.ops.preflight.running import CHECKS, run_checks

    rows = run_checks(subject, [check() for check in CHECKS])
    rows += probe_rows(subject, probe=probe, ask=not yes)
    failed = sum(row.status == "fail" for row in rows)
    if output == "json":
        answer = {
            "deployment": source.deployment.name,
            "region": source.deployment.region,
            "ok": not failed,
            "rows": [row.as_dict() for row in rows],
        }
        click.echo(json.dumps(answer, indent=2))
    else:
        _table(rows)
    if failed:
        raise click.exceptions.Exit(1)


def _table(rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "subject", "", "found", show_edge=False)
    for row in rows:
        found = Text(row.found) if not row.mend else Text(f"{row.found}\n  mend: {row.mend}")
        table.add_row(row.check, Text(row.subject), Text(row.status, style=_COLOURS[row.status]), found)
    Console().print(table)
    counts = {status: sum(row.status == status for row in rows) for status in _COLOURS}
    click.echo(f"{counts['pass']} pass, {counts['warn']} warn, {counts['fail']} fail")


def _zones(subject: Subject, output: str) -> None:
    from botocore.exceptions import BotoCoreError, ClientError

    from kvrelay.errors import UserError
    from kvrelay.ops.preflight.refusals import refusal
    from kvrelay.ops.preflight.zones import ranked_zones

    try:
        ranked = ranked_zones(subject)
    except (BotoCoreError, ClientError) as error:
        row = refusal("zones", error)
        raise UserError(f"zones: {row.found}; {row.mend}") from None
    if output == "json":
        click.echo(json.dumps([asdict(place) for place in ranked], indent=2))
        return
    for place in ranked:
        lacks = f"lacks {', '.join(place.missing)}" if place.missing else "offers every type"
        click.echo(f"{place.zone} ({place.zone_id}): {lacks}")
    complete = [place.zone for place in ranked if not place.missing]
    if not complete:
        raise UserError(f"no zone of {subject.aws.region} offers every type; choose another region or type")
    pair = [*complete, *(place.zone for place in ranked if place.missing)][:2]
    click.echo(f"\nzones: [{', '.join(pair)}]\ngpu_nodes:\n  zone: {complete[0]}")
