"""A report as a table for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kvrelay.bench.cells import Cell
from kvrelay.bench.figures import STALL_SECONDS, Figures, Spread
from kvrelay.bench.report import Report
from kvrelay.bench.verdict import pooled

# A client that needs more of a core, or misses its plan by more, has measured itself.
_BUSY = 0.8
_LATE_SECONDS = 0.02
_LOADED = 0.5


def show(report: Report, console: Console) -> None:
    """Prints all figures, what to doubt about them, and the verdict."""
    goals = report.goals
    console.print(
        f"[bold]goals[/]: TTFT within {goals.ttft * 1e3:g} ms, 99% of an answer's gaps within {goals.itl * 1e3:g} ms; "
        "latencies in ms, from when a request was to be sent",
        highlight=False,
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("rate", "endpoint"):
        table.add_column(name, no_wrap=True)
    for name in (
        "whole",
        "TTFT p50",
        "p90",
        "p99",
        "ITL p50",
        "p99",
        "max",
        "e2e p50",
        "p99",
        f"stall >{STALL_SECONDS * 1e3:g}",
        "tok/s",
        "good",
        "good/s",
    ):
        table.add_column(name, justify="right")
    for (rate, endpoint), cells in report.groups.items():
        shown = "trace" if rate is None else f"{rate:g}/s"
        table.add_row(shown, endpoint, *_row(pooled(cells, goals)))
        kinds = dict.fromkeys(outcome.request.kind for cell in cells for outcome in cell.outcomes)
        for kind in kinds if len(kinds) > 1 else ():
            table.add_row("", f"  {kind}", *_row(pooled(cells, goals, kind)), style="dim")
    console.print(table)
    for (rate, endpoint), cells in report.groups.items():
        where = endpoint if rate is None else f"{endpoint} at {rate:g}/s"
        for note in notes(cells, pooled(cells, goals)):
            console.print(f"{where}: {note}", highlight=False, markup=False)
    machine = report.machine
    if machine["load_average"] > _LOADED * machine["processors"]:
        console.print(
            f"other programs kept this machine busy before the load began: load average "
            f"{machine['load_average']:.1f} on {machine['processors']} processors",
            highlight=False,
        )
    for verdict in report.verdicts:
        console.print(verdict.text, style="bold", highlight=False, markup=False, soft_wrap=True)


def notes(cells: Sequence[Cell], found: Figures) -> list[str]:
    """What a reader should know before believing the figures of one endpoint at one rate."""
    said = []
    if found.failed:
        endings = ", ".join(f"{count} {ending}" for ending, count in found.failed.items())
        often = "; ".join(f"{count} x {message}" for message, count in list(found.errors.items())[:3])
        said.append(f"not whole: {endings} ({often})")
    if found.late and found.late.p99 > _LATE_SECONDS:
        said.append(
            f"this client sent late, by {found.late.p99 * 1e3:.0f} ms at p99 (counted in TTFT and e2e; "
            f"without it TTFT p50 is {_ms(found.ttft_from_sending, 'p50')} ms)"
        )
    busy = sum(cell.client_cpu for cell in cells) / max(1e-9, sum(cell.elapsed for cell in cells))
    if busy > _BUSY:
        said.append(f"this client kept a core {busy:.0%} busy: it may have measured itself")
    if found.whole and not found.exact:
        said.append("the endpoint does not count tokens in each chunk: a chunk with text counts as one token")
    return said


def _row(found: Figures) -> list[str]:
    return [
        f"{found.whole}" if found.whole == found.requests else f"[red]{found.whole} of {found.requests}[/]",
        *(_ms(found.ttft, name) for name in ("p50", "p90", "p99")),
        *(_ms(found.itl, name, 1) for name in ("p50", "p99", "most")),
        *(_ms(found.end_to_end, name) for name in ("p50", "p99")),
        f"{found.stalled_share:.0%}",
        f"{found.output_tokens_per_s:.0f}",
        f"{found.within_share:.1%}",
        f"{found.goodput:.2f}",
    ]


def _ms(spread: Spread | None, name: str, digits: int = 0) -> str:
    return "-" if spread is None else f"{getattr(spread, name) * 1e3:.{digits}f}"
