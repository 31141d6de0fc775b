"""A report as one picture: TTFT, gaps between tokens, and how many requests kept the goals."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvrelay.bench.cells import Cell
from kvrelay.bench.report import Report
from kvrelay.bench.verdict import pooled
from kvrelay.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
_COLOURS = ("#1f6f8b", "#d98324", "#5f7f3a", "#8a4f7d")
_GOAL = "#b3412e"


def check_chart(path: Path) -> None:
    """Raises UserError when a chart can't be drawn to `path`: asked before a load that takes minutes."""
    if path.suffix not in FORMATS:
        raise UserError(f"--chart: {path} is neither .png nor .svg")
    if not path.parent.is_dir():
        raise UserError(f"--chart: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError(
            "--chart needs matplotlib, which is not installed here; write --json instead, and draw it where "
            "matplotlib is: kvrelay bench --from FILE --chart FILE"
        ) from None


def draw(report: Report, path: Path) -> None:
    """Draws a row for each rate: TTFT and gaps as distributions with their goals, and the share that kept both."""
    import matplotlib as mpl

    mpl.use("Agg")
    # Equal reports give equal bytes.
    with mpl.rc_context({"svg.hashsalt": "kvrelay", "svg.fonttype": "none", "font.size": 9}):
        _draw(report, path)


def _draw(report: Report, path: Path) -> None:
    from matplotlib import pyplot

    names = list(dict.fromkeys(cell.endpoint for cell in report.cells))
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}
    rates = list(dict.fromkeys(rate for rate, _ in report.groups))
    figure, rows = pyplot.subplots(
        len(rates),
        3,
        figsize=(11, 0.6 + 2.7 * len(rates)),
        squeeze=False,
        layout="constrained",
        width_ratios=(3, 3, 2),
    )
    for rate, (ttft, itl, good) in zip(rates, rows, strict=True):
        groups = {name: cells for (at, name), cells in report.groups.items() if at == rate}
        load = "trace" if rate is None else f"{rate:g} requests/s"
        _shares_within(ttft, groups, colours, report.goals.ttft)
        ttft.set_title(f"{load}: answers begun within", loc="left")
        _gaps_beyond(itl, groups, colours, report.goals.itl)
        itl.set_title("gaps between tokens longer than", loc="left")
        _kept(good, groups, colours, report)
        good.set_title("% within both goals", loc="left")
    rows[0][0].legend(frameon=False, loc="lower right")
    metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {}
    try:
        figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise UserError(f"--chart: {path} can't be written: {error.strerror}") from None
    finally:
        pyplot.close(figure)


def _shares_within(axes: Axes, groups: dict[str, list[Cell]], colours: dict[str, str], goal: float) -> None:
    for name, cells in groups.items():
        outcomes = [outcome for cell in cells for outcome in cell.outcomes]
        values = sorted(outcome.ttft for outcome in outcomes if outcome.whole)
        # Requests that failed never began: their share is missing at the top.
        shares = [100 * (index + 1) / len(outcomes) for index in range(len(values))]
        axes.step([value * 1e3 for value in values], shares, where="post", color=colours[name], label=name)
    axes.set(xscale="log", xlabel="ms", ylabel="% of requests", ylim=(0, 102))
    _mark(axes, goal)


def _gaps_beyond(axes: Axes, groups: dict[str, list[Cell]], colours: dict[str, str], goal: float) -> None:
    for name, cells in groups.items():
        gaps = chain.from_iterable(
            outcome.gaps_us for cell in cells for outcome in cell.outcomes if outcome.whole
        )
        values = sorted(gap / 1e3 for gap in gaps if gap)
        shares = [100 * (len(values) - index) / len(values) for index in range(len(values))]
        axes.step(values, shares, where="pre", color=colours[name])
    axes.set(xscale="log", yscale="log", xlabel="ms", ylabel="% of gaps")
    _mark(axes, goal)


def _kept(axes: Axes, groups: dict[str, list[Cell]], colours: dict[str, str], report: Report) -> None:
    names = list(groups)
    found = [pooled(groups[name], report.goals) for name in names]
    shares = [100 * each.within_share for each in found]
    bars = axes.bar(names, shares, color=[colours[name] for name in names], width=0.6)
    axes.bar_label(
        bars, [f"{share:.1f}\n{each.goodput:.2f}/s" for share, each in zip(shares, found, strict=True)]
    )
    axes.set(ylim=(0, 125), yticks=(0, 50, 100))


def _mark(axes: Axes, goal: float) -> None:
    axes.axvline(goal * 1e3, color=_GOAL, linestyle="--", linewidth=1)
    axes.grid(visible=True, alpha=0.25)
    axes.xaxis.set_major_formatter("{x:g}")
    low, high = axes.get_xlim()
    # Where decades are narrow their own labels are enough.
    digits = "25" if high < 100 * low else ""
    axes.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:g}"[0] in digits else "")
    if axes.get_yscale() == "log":
        axes.yaxis.set_major_formatter("{x:g}")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
