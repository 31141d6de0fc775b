"""Draws every split of the replicas beside plain ones: TTFT, ITL, requests within the goals and their price, as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from kvrelay.planner.asked import Asked
from kvrelay.planner.ratio import Comparison, Option, compare
from kvrelay.planner.transfer import fabric_of

_FEWEST = 6
"""With fewer replicas there is hardly a ratio to see: as many as this are drawn instead, at the same load each."""

_WIDTH, _PANEL, _LEFT, _TOP = 760, 118, 64, 74
_COLOURS = ("#1f6f8b", "#8bb8c8")
_GOAL = "#b3412e"


@dataclass(frozen=True, slots=True)
class Panel:
    """One row of bars. Series are drawn side by side; infinite values reach the top and say so."""

    title: str
    series: tuple[tuple[str, Callable[[Option], float | None]], ...]
    goal: float | None = None


def draw(asked: Asked, comparison: Comparison) -> str:
    """The picture of a comparison as an SVG document."""
    replicas = asked.replicas
    if replicas < _FEWEST:
        rate = comparison.workload.rate * _FEWEST / replicas
        comparison = compare(
            asked.prefill.engine,
            asked.decode.engine,
            _FEWEST,
            comparison.workload.at(rate),
            fabric_of(asked.decode.engine.instance),
            comparison.goals,
            _scaled(comparison.plain.usd_per_hour, _FEWEST / replicas),
        )
        replicas = _FEWEST
    goals = comparison.goals
    panels = [
        Panel(
            "TTFT, s",
            (("p50", lambda each: each.latency.ttft[50]), ("p90", lambda each: each.latency.ttft[90])),
            goals.ttft_p90,
        ),
        Panel(
            "ITL, ms",
            (
                ("p50", lambda each: each.latency.itl[50] * 1e3),
                ("p99", lambda each: each.latency.itl[99] * 1e3),
            ),
            goals.itl_p99 * 1e3,
        ),
        Panel("requests/s within the goals", (("", lambda each: each.goodput),)),
        Panel("USD per million tokens at that rate", (("", lambda each: each.usd_per_million_tokens),)),
    ]
    engine = asked.decode.engine
    heading = f"{asked.shape.name}: {replicas} engines of {engine.tensor_parallel} x {engine.gpu.kind}"
    under = f"TTFT and ITL at {comparison.workload.rate:.2f} requests/s. Estimates: docs/planner.md says how good."
    return _svg(heading, under, panels, comparison.options)


def _scaled(usd: float | None, factor: float) -> float | None:
    return None if usd is None else usd * factor


def _svg(heading: str, under: str, panels: Sequence[Panel], options: Sequence[Option]) -> str:
    height = _TOP + len(panels) * _PANEL + 34
    column = (_WIDTH - _LEFT - 16) / len(options)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(16, 24, heading, size=15, weight="bold"),
        _text(16, 43, under, fill="#555"),
    ]
    for index, panel in enumerate(panels):
        parts += _panel(panel, options, _TOP + index * _PANEL, column)
    base = _TOP + len(panels) * _PANEL + 12
    for index, option in enumerate(options):
        label = "plain" if option.latency.prefill == 0 else option.latency.label
        parts.append(_text(_LEFT + (index + 0.5) * column, base, label, anchor="middle", weight="bold"))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, options: Sequence[Option], top: float, column: float) -> list[str]:
    room = _PANEL - 46
    floor = top + 14 + room
    values = [read(option) for option in options for _, read in panel.series]
    shown = [value for value in values if value is not None and math.isfinite(value)]
    # A goal far above every bar would flatten them; it is then only named.
    most = max(shown, default=1.0) or 1.0
    goal_seen = panel.goal is not None and panel.goal <= 2 * most
    scale = (room - 10) / max(most, panel.goal if goal_seen and panel.goal else 0.0)
    keys = ", ".join(name for name, _ in panel.series if name)
    title = f"{panel.title} ({keys})" if keys else panel.title
    if panel.goal is not None:
        title += f"; goal {panel.goal:g}"
    parts = [
        _text(16, top, title, fill="#333"),
        f'<line x1="{_LEFT}" y1="{floor}" x2="{_WIDTH - 16}" y2="{floor}" stroke="#999"/>',
    ]
    for index, option in enumerate(options):
        width = min(40.0, column * 0.7 / len(panel.series))
        start = _LEFT + (index + 0.5) * column - width * len(panel.series) / 2
        for place, (_, read) in enumerate(panel.series):
            parts += _bar(read(option), start + place * width, width, floor, scale, room, _COLOURS[place])
    if goal_seen and panel.goal is not None:
        y = floor - panel.goal * scale
        parts.append(
            f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - 16}" y2="{y:.1f}" stroke="{_GOAL}" stroke-dasharray="5 4"/>'
        )
    return parts


def _bar(
    value: float | None, x: float, width: float, floor: float, scale: float, room: float, colour: str
) -> list[str]:
    middle = x + width / 2
    if value is None:
        return [_text(middle, floor - 4, "-", anchor="middle", fill="#777")]
    if not math.isfinite(value):
        return [_text(middle, floor - 4, "grows", anchor="middle", size=9, fill=_GOAL)]
    height = min(room, value * scale)
    return [
        f'<rect x="{x + 1:.1f}" y="{floor - height:.1f}" width="{width - 2:.1f}" height="{height:.1f}" '
        f'fill="{colour}"/>',
        _text(middle, floor - height - 3, _short(value), anchor="middle", size=10, fill="#333"),
    ]


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    size: int = 12,
    weight: str = "normal",
    fill: str = "#111",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="{fill}">{escape(text)}</text>'
    )
