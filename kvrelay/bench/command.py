"""kvrelay bench: the same open-loop load on several endpoints, measured and compared."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from kvrelay.bench.cells import measure, turns
from kvrelay.bench.drive import Limits, Target
from kvrelay.bench.figures import Goals
from kvrelay.bench.prompts import Api
from kvrelay.bench.report import Report, as_json, read_report, together
from kvrelay.bench.request_set import RequestSet, parse_mix, poisson_requests
from kvrelay.bench.trace import read_trace
from kvrelay.bench.verdict import pooled
from kvrelay.errors import UserError
from kvrelay.ops.endpoint import Endpoint, announced_endpoint, endpoint

# Looked up by name when asked for: what serves on this machine is not this module's business.
SERVED_HERE = "kvrelay.bench.served_here"
_POSITIVE = click.FloatRange(min=0, min_open=True, max=1e6)
_DEFAULT_GOALS = Goals(2.0, 0.2)
_MOST_REPLICAS = 8
_FILE = click.Path(dir_okay=False, path_type=Path)


class NothingMeasuredError(UserError):
    """An endpoint gave no whole answer."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Asking:
    """How endpoints are asked, whichever they are."""

    api: Api
    model: str | None
    api_key: str | None
    extensions: bool
    limits: Limits
    warmup: int

    def target(self, name: str, where: Endpoint, model: str | None = None) -> Target:
        """An endpoint as a target; asks it for its model unless that is known. Raises EndpointError."""
        known = model or where.model(self.model)
        return Target(name, where.url, known, self.api, where.api_key, self.extensions)


@click.command()
@click.option(
    "--endpoint", "endpoints", multiple=True, metavar="NAME=URL", help="What to measure; repeatable."
)
@click.option(
    "--local", is_flag=True, help="Serve a config prefill/decode on this machine's CPU, and measure it."
)
@click.option(
    "--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="With --local: which."
)
@click.option(
    "--against", metavar="replicas:N", help="With --local: then serve and measure N ordinary replicas."
)
@click.option(
    "--from", "files", type=_FILE, multiple=True, help="Show an earlier --json instead; repeatable."
)
@click.option(
    "--rate", "rates", type=_POSITIVE, multiple=True, help="Requests a second; repeatable. [default: 2]"
)
@click.option("--seconds", type=_POSITIVE, default=30.0, show_default=True, help="How long requests come.")
@click.option(
    "--mix", default="512~0.5/128", show_default=True, help="Kinds of requests: share:prompt/answer."
)
@click.option("--trace", type=_FILE, help="Replay the requests of a JSON-lines file instead.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides times, lengths and prompts.")
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=1, show_default=True, help="Repeat, interleaved."
)
@click.option(
    "--warmup", type=click.IntRange(0, 1000), default=4, show_default=True, help="Requests not counted."
)
@click.option("--slo-ttft-ms", type=_POSITIVE, help="Goal for a request's TTFT.  [default: 2000]")
@click.option("--slo-itl-ms", type=_POSITIVE, help="Goal for 99% of the gaps of its answer.  [default: 200]")
@click.option(
    "--time-limit", type=_POSITIVE, default=300.0, show_default=True, help="Seconds for one request."
)
@click.option(
    "--api", type=click.Choice([each.value for each in Api]), default="completions", show_default=True
)
@click.option("--only-openai", is_flag=True, help="Use none of vLLM's additions: endpoints that refuse them.")
@click.option("--model", help="The model's id; default: the only one served.")
@click.option("--api-key", envvar="OPENAI_API_KEY", help="Sent as a bearer token; default: $OPENAI_API_KEY.")
@click.option("--json", "json_file", type=_FILE, help="Write all of it here, every request kept.")
@click.option("--chart", type=_FILE, help="Draw it here (.png or .svg).")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def bench(
    endpoints: tuple[str, ...],
    local: bool,
    config: Path | None,
    against: str | None,
    files: tuple[Path, ...],
    rates: tuple[float, ...],
    seconds: float,
    mix: str,
    trace: Path | None,
    seed: int,
    rounds: int,
    warmup: int,
    slo_ttft_ms: float | None,
    slo_itl_ms: float | None,
    time_limit: float,
    api: str,
    only_openai: bool,
    model: str | None,
    api_key: str | None,
    json_file: Path | None,
    chart: Path | None,
    output: str,
) -> None:
    """Measure TTFT, ITL, goodput and stalls under load, and say whether prefill/decode pays.

    Requests are sent at their own times (Poisson, seeded), however slow the answers are, and the
    same ones to every endpoint. Without --endpoint or --local it measures what is served here.

    \b
    kvrelay bench --endpoint pd=http://127.0.0.1:8000 --endpoint replicas=http://127.0.0.1:8001 --rate 4 --rate 10
    kvrelay bench --local --against replicas:2 --mix chat=90%:256/64,long=10%:1500/32 --chart bench.svg

    Exit codes: 0 measured; 1 an endpoint can't be reached or gave no whole answer; 2 wrong input.
    """
    _check_files(json_file, chart)
    goals = _goals(slo_ttft_ms, slo_itl_ms)
    if files:
        if endpoints or local:
            raise UserError("--from shows what was measured before; it goes without --endpoint and --local")
        report = together([read_report(file) for file in files])
        judged = Goals(
            goals.ttft if slo_ttft_ms else report.goals.ttft, goals.itl if slo_itl_ms else report.goals.itl
        )
        _present(report.judged_by(judged), json_file, chart, output)
        return
    if trace and rates:
        raise UserError("--trace has its own times; it goes without --rate")
    if local and endpoints:
        raise UserError("--local serves what it measures; it goes without --endpoint")
    if (against or config) and not local:
        raise UserError("--config and --against say what --local serves; add --local")
    asking = Asking(Api(api), model, api_key, not only_openai, Limits(time_limit), warmup)
    sets = _request_sets(trace, mix, rates or (2.0,), seconds, seed, rounds)
    settings = {
        "mix": None if trace else mix,
        "trace": str(trace) if trace else None,
        "rates": [] if trace else list(rates or (2.0,)),
        "seconds": seconds,
        "seed": seed,
        "rounds": rounds,
        "warmup": warmup,
        "time_limit_s": time_limit,
        "api": api,
        "only_openai": only_openai,
    }
    report = Report.begun(settings, {}, goals)
    if local:
        report = _measure_local(report, asking, sets, config, _replicas(against), json_file)
    else:
        report = _measure_endpoints(report, asking, sets, _named(endpoints, api_key), json_file)
    _present(report, json_file, chart, output)


def _measure_endpoints(
    report: Report,
    asking: Asking,
    sets: Sequence[Sequence[RequestSet]],
    named: Sequence[tuple[str, Endpoint]],
    json_file: Path | None,
) -> Report:
    targets = [asking.target(name, where) for name, where in named]
    for target in targets:
        report.endpoints[target.name] = {"url": target.url, "model": target.model}
    return _measure(report, asking, sets, targets, json_file)


def _measure_local(
    report: Report,
    asking: Asking,
    sets: Sequence[Sequence[RequestSet]],
    config: Path | None,
    replicas: int | None,
    json_file: Path | None,
) -> Report:
    here = importlib.import_module(SERVED_HERE)
    for contender in here.contenders(config, replicas):
        with here.served_here(contender, _say) as where:
            report.endpoints[contender.name] = {
                "url": where.url,
                "model": contender.model_id,
                "engines": contender.engines,
                "config": contender.rendered.config,
            }
            target = asking.target(contender.name, where, contender.model_id)
            report = _measure(report, asking, sets, [target], json_file)
    return report


def _measure(
    report: Report,
    asking: Asking,
    sets: Sequence[Sequence[RequestSet]],
    targets: Sequence[Target],
    json_file: Path | None,
) -> Report:
    """Measures and keeps each cell on disk as soon as it is there: a long measurement survives its interruption."""
    for turn in turns(targets, sets):
        asked = turn.asked
        load = "the trace" if asked.rate is None else f"{asked.rate:g}/s"
        _say(
            f"{turn.target.name}, {load}, round {turn.round + 1} of {len(sets)}: "
            f"{len(asked.requests)} requests in {asked.seconds:.0f} s"
        )
        cell = measure(turn, asking.limits, asking.warmup)
        report = report.with_cell(cell)
        if json_file:
            report.write(json_file)
        found = pooled([cell], report.goals)
        if not found.whole:
            often = next(iter(found.errors), "no message")
            raise NothingMeasuredError(
                f"{turn.target.name} gave no whole answer to {found.requests}: {often}"
            )
        _say(
            f"  {found.whole} whole answers after {cell.elapsed:.0f} s, {found.within_share:.1%} within the goals"
        )
    return report


def _present(report: Report, json_file: Path | None, chart: Path | None, output: str) -> None:
    if not report.cells:
        raise UserError("--from: there is no measurement in these files")
    if json_file:
        report.write(json_file)
    if output == "json":
        click.echo(json.dumps(as_json(report, requests=False), indent=2))
    else:
        from rich.console import Console

        from kvrelay.bench.table import show

        show(report, Console(width=None if sys.stdout.isatty() else 140))
    if chart:
        from kvrelay.bench.chart import draw

        draw(report, chart)


def _request_sets(
    trace: Path | None, mix: str, rates: Sequence[float], seconds: float, seed: int, rounds: int
) -> list[list[RequestSet]]:
    """The request sets of each round."""
    if trace:
        asked = read_trace(trace)
        return [[replace(asked, label=f"trace/{round_}")] for round_ in range(rounds)]
    kinds = parse_mix(mix)
    return [
        [poisson_requests(kinds, rate, seconds, seed, round_) for rate in sorted(set(rates))]
        for round_ in range(rounds)
    ]


def _named(endpoints: Sequence[str], api_key: str | None) -> list[tuple[str, Endpoint]]:
    if not endpoints:
        return [("here", announced_endpoint())]
    named = dict(_name_and_endpoint(text, api_key) for text in endpoints)
    if len(named) < len(endpoints):
        raise UserError("--endpoint: two of them have the same name; each needs its own")
    return list(named.items())


def _name_and_endpoint(text: str, api_key: str | None) -> tuple[str, Endpoint]:
    name, _, url = text.partition("=")
    try:
        # Reading the port is what finds a wrong one.
        if not name.strip() or urlsplit(url).port == 0:
            raise ValueError(text)
        return name.strip(), endpoint(url, api_key=api_key)
    except (UserError, ValueError):
        raise UserError(
            f"--endpoint: {text!r} is not a name and an address; right would be pd=http://127.0.0.1:8000"
        ) from None


def _replicas(against: str | None) -> int | None:
    if against is None:
        return None
    what, _, count = against.partition(":")
    if (
        what != "replicas"
        or not (count.isascii() and count.isdigit())
        or not 1 <= int(count) <= _MOST_REPLICAS
    ):
        raise UserError(
            f"--against: {against!r} is not replicas:N with N from 1 to {_MOST_REPLICAS}; "
            "replicas:2 has as many engines as one prefill and one decode"
        )
    return int(count)


def _goals(ttft_ms: float | None, itl_ms: float | None) -> Goals:
    return Goals(
        ttft_ms / 1000 if ttft_ms else _DEFAULT_GOALS.ttft, itl_ms / 1000 if itl_ms else _DEFAULT_GOALS.itl
    )


def _check_files(json_file: Path | None, chart: Path | None) -> None:
    """A load of minutes should not end with a file that can't be written."""
    if json_file and not json_file.parent.is_dir():
        raise UserError(f"--json: there is no folder {json_file.parent}")
    if chart:
        from kvrelay.bench.chart import check_chart

        check_chart(chart)


def _say(line: str) -> None:
    click.echo(line, err=True)
