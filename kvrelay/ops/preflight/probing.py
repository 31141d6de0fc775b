"""preflight --probe at the terminal: what was left is cancelled, what it costs is said, and you are asked."""

from __future__ import annotations

import click

from kvrelay.ops.preflight.probe import Prober, bill, wanted
from kvrelay.ops.preflight.probe_journal import unfinished
from kvrelay.ops.preflight.probe_reservations import forgotten
from kvrelay.ops.preflight.refusals import refusal
from kvrelay.ops.preflight.rows import Row, Status, Subject


def probe_rows(subject: Subject, *, probe: bool, ask: bool) -> list[Row]:
    """The probe's rows; without `probe` only those of an earlier one that was killed on this machine."""
    from botocore.exceptions import BotoCoreError, ClientError

    deployment, aws = subject.source.deployment, subject.aws
    rows: list[Row] = []
    try:
        if probe or unfinished(aws.region, deployment.name):
            for identifier in forgotten(aws, deployment.name):
                rows.append(
                    Row("probe", identifier, Status.WARN, "an earlier probe left it; it is cancelled now")
                )
        questions = wanted(subject) if probe else []
    except (BotoCoreError, ClientError) as error:
        return [*rows, refusal("probe", error)]
    if not probe:
        return rows
    if not questions:
        return [
            *rows,
            Row("probe", "capacity", Status.WARN, "no on-demand group has a type that a zone offers"),
        ]
    if ask:
        click.echo("probe, one after the other: " + "; ".join(map(str, questions)))
        click.echo(f"cost: {bill(questions, aws.region)}")
        if not click.confirm("Reserve these, and cancel each at once?", default=False):
            return [*rows, Row("probe", "capacity", Status.WARN, "not asked: you said no")]
    return [*rows, *Prober(aws, deployment.name, deployment.gpu_nodes.zone).rows(questions)]
