"""A plan as tables for people."""

from __future__ import annotations

import math

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from kvrelay.planner.fit import GIB, MIB
from kvrelay.planner.plan import Plan, RoleFit
from kvrelay.planner.ratio import Comparison


def show(plan: Plan, console: Console) -> None:
    """Prints fit, transfer, comparison, cost and time."""
    asked = plan.asked
    console.print(f"[bold]{asked.name}[/]: {asked.shape.name} in {asked.footprint.region}", highlight=False)
    _print(console, _fit_table(plan))
    for each in plan.fits:
        _show_alternatives(each, console)
    _print(console, _transfer_table(plan))
    if plan.comparison:
        _show_comparison(plan.comparison, console)
    _print(console, _cost_table(plan))
    _print(console, _time_table(plan))
    _show_image_pull(plan, console)


def _print(console: Console, table: Table) -> None:
    # Above the table and not as its title, which would wrap at the table's width.
    console.print(f"\n[bold]{table.caption}[/]", highlight=False)
    table.caption = None
    console.print(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(caption=title, box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _fit_table(plan: Plan) -> Table:
    table = _table(
        "Memory of one GPU, GiB",
        "role",
        "GPU",
        "budget",
        "weights",
        "activations",
        "graphs",
        "cache",
        "sequences",
        "largest length",
    )
    for each in plan.fits:
        engine, found = each.role.engine, each.fit
        gpu = f"{engine.tensor_parallel} x {engine.gpu.kind}"
        table.add_row(
            f"{each.role.replicas} x {each.role.name}",
            gpu,
            *(
                f"{part / GIB:.2f}"
                for part in (found.budget, found.weights, found.activations, found.graphs, found.cache)
            ),
            f"{found.sequences} of {engine.max_model_len}" if found.sequences else "[red]none[/]",
            f"{found.longest}" if found.longest else "[red]none[/]",
        )
    return table


def _show_alternatives(each: RoleFit, console: Console) -> None:
    if each.fit.fits:
        return
    engine = each.role.engine
    wanted = f"{engine.concurrency} sequences of {engine.max_model_len} tokens"
    console.print(
        f"[red]{each.role.name} does not fit[/] on {engine.instance.name}: {wanted} of "
        f"{each.fit.sequence / MIB:.0f} MiB each do not go into {each.fit.cache / GIB:.2f} GiB. What would:",
        highlight=False,
    )
    for other in each.alternatives:
        cost = "price not known" if other.usd_per_hour is None else f"{other.usd_per_hour:.2f} USD/h a node"
        console.print(
            f"  - {', '.join(other.changes)}: {other.fit.sequences} sequences, {cost}", highlight=False
        )
    if not each.alternatives:
        console.print("  - nothing on one node of the types that kvrelay knows", highlight=False)


def _transfer_table(plan: Plan) -> Table:
    fabrics = [each.fabric for each in plan.roads[0].transfers]
    labels = [fabric.label if fabric.measured else f"{fabric.label} *" for fabric in fabrics]
    table = _table("KV cache of one prompt, ms (* not measured)", "prompt", "MiB", "prefill", *labels)
    for road in plan.roads:
        table.add_row(
            f"{road.tokens} tokens",
            f"{road.transfers[0].bytes / MIB:.1f}",
            f"{road.prefill_seconds * 1e3:.0f}",
            *(f"{each.seconds * 1e3:.0f}" for each in road.transfers),
        )
    return table


def _show_comparison(comparison: Comparison, console: Console) -> None:
    prompts = sorted({kind.prompt for kind in comparison.workload.kinds})
    answers = sorted({kind.answer for kind in comparison.workload.kinds})
    lengths = f"prompts of {_range(prompts)} and answers of {_range(answers)} tokens"
    title = f"At {comparison.workload.rate:.2f} requests/s, {lengths}"
    table = _table(
        title,
        "replicas",
        "TTFT p50",
        "p90",
        "p99 s",
        "ITL p50",
        "p99 ms",
        "most req/s",
        "within goals",
        "USD/M tokens",
    )
    for option in comparison.options:
        latency = option.latency
        cost = option.usd_per_million_tokens
        table.add_row(
            latency.label,
            *(_seconds(latency.ttft[each]) for each in (50, 90, 99)),
            *(_milliseconds(latency.itl[each]) for each in (50, 99)),
            f"{option.capacity:.2f}",
            f"{option.goodput:.2f}",
            "-" if cost is None else f"{cost:.2f}",
        )
    _print(console, table)
    goals = comparison.goals
    console.print(
        f"{comparison.verdict} (goals: TTFT p90 {goals.ttft_p90:g} s, ITL p99 {goals.itl_p99 * 1e3:g} ms)\n",
        highlight=False,
    )


def _cost_table(plan: Plan) -> Table:
    total = plan.cost.usd_per_hour
    shown = "not known" if total is None else f"{total:.2f} USD/h"
    when = f"instance prices of {plan.cost.date}" if plan.cost.date else "no prices for this region"
    table = _table(f"Cost: {shown} on demand, without traffic and logs ({when})", "part", "USD/h")
    for part in plan.cost.parts:
        table.add_row(part.name, "not known" if part.usd_per_hour is None else f"{part.usd_per_hour:.3f}")
    return table


def _time_table(plan: Plan) -> Table:
    table = _table("Time, minutes", "phase", "in all", "what it waits for")
    table.columns[2].justify = "left"
    for line in plan.timelines.values():
        table.add_row(line.phase, f"{line.seconds / 60:.0f}", " > ".join(line.critical_path))
    return table


def _show_image_pull(plan: Plan, console: Console) -> None:
    pull = plan.asked.image_pull
    other = pull.sequential if pull.mode == "parallel" else pull.parallel
    instead = "sequential" if pull.mode == "parallel" else "parallel"
    console.print(
        f"image-pull is {pull.seconds / 60:.1f} min on each fresh GPU node ({pull.size_gb:g} GB, {pull.mode}); "
        f"with image_pull: {instead} {other / 60:.1f} min",
        highlight=False,
    )


def _range(values: list[int]) -> str:
    return f"{values[0]}" if len(values) == 1 else f"{values[0]} to {values[-1]}"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "[red]grows[/]"


def _milliseconds(value: float) -> str:
    return f"{value * 1e3:.0f}" if math.isfinite(value) else "[red]grows[/]"
