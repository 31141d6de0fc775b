"""kvrelay plan: does it fit, does prefill/decode pay, what does it cost, when is it ready."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from kvrelay.errors import UserError
from kvrelay.planner.asked import asked
from kvrelay.planner.plan import Plan, Wish, usual_workload
from kvrelay.planner.plan import plan as make_plan
from kvrelay.planner.workload import parse_mix
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import read_deployment

_POSITIVE = click.FloatRange(min=0, min_open=True, max=1e6)


@click.command()
@click.argument(
    "deployment", type=click.Path(dir_okay=False, path_type=Path), default=Path("deployment.yaml")
)
@click.argument("serve_config", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--model-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="config.json of a model that kvrelay does not know.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 100_000),
    default=1,
    show_default=True,
    help="Sequences of full length that each engine must hold.",
)
@click.option("--mix", help="Requests as share:prompt/answer in tokens, e.g. 90%:512/128,10%:12000/64.")
@click.option(
    "--rate", type=_POSITIVE, help="Requests a second; half of what plain replicas serve if left out."
)
@click.option("--ttft", type=_POSITIVE, help="Goal for TTFT p90, s; 2, or 3 x a lone request's if longer.")
@click.option("--itl", type=_POSITIVE, help="Goal for ITL p99, ms; 200, or 3 x a lone request's if longer.")
@click.option(
    "--picture", type=click.Path(dir_okay=False, path_type=Path), help="Write an SVG of all splits here."
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def plan(
    deployment: Path,
    serve_config: Path | None,
    model_config: Path | None,
    concurrency: int,
    mix: str | None,
    rate: float | None,
    ttft: float | None,
    itl: float | None,
    picture: Path | None,
    output: str,
) -> None:
    """Size, time and price DEPLOYMENT before it costs anything.

    SERVE_CONFIG is the deployment's own when left out. Exit code 1 when the model
    does not fit; what would is then listed with its price. How good the estimates
    are stands in docs/planner.md.
    """
    read = read_deployment(deployment)
    app = load_serve_app(serve_config or read.serve_config_path)
    wanted = asked(read.deployment, app, concurrency, model_config)
    workload = parse_mix(mix, 1.0) if mix else usual_workload(wanted)
    made = make_plan(wanted, Wish(workload, rate, ttft, itl / 1000 if itl else None))
    if output == "json":
        from kvrelay.planner.as_json import as_json

        click.echo(json.dumps(as_json(made), indent=2))
    else:
        from rich.console import Console

        from kvrelay.planner.table import show

        # Nothing here writes :names: of emoji; looking for them loads a table of 3,600 of them.
        show(made, Console(width=None if sys.stdout.isatty() else 120, emoji=False))
    if picture:
        _write_picture(picture, made)
    if not made.all_fit:
        raise SystemExit(1)


def _write_picture(path: Path, made: Plan) -> None:
    from kvrelay.planner.picture import draw

    if made.comparison is None:
        raise UserError(
            "--picture: there is nothing to compare; the model must fit, on two replicas at least"
        )
    try:
        path.write_text(draw(made.asked, made.comparison))
    except OSError as error:
        raise UserError(f"--picture: {path} can't be written: {error.strerror}") from None
