"""How phases are shown: one live table in a terminal, a line at each change elsewhere, JSON lines for machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from kvrelay.ops.wait.causes import Cause
from kvrelay.ops.wait.phases import Phase, State

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

_MARKS = {
    State.WAITING: ("·", "dim"),
    State.WORKING: ("…", "cyan"),
    State.LATE: ("!", "yellow"),
    State.DONE: ("✓", "green"),
    State.FAILED: ("✗", "bold red"),
}


class View(Protocol):
    """Takes each look's phases."""

    def show(self, phases: list[Phase], unread: Mapping[str, str]) -> None: ...


class LiveView(AbstractContextManager["LiveView"]):
    """One table that renews itself in place."""

    def __init__(self, title: str, console: Console) -> None:
        from rich.live import Live

        self._title = title
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="visible")

    def __enter__(self) -> LiveView:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(self, phases: list[Phase], unread: Mapping[str, str]) -> None:
        """Draws it anew."""
        self._live.update(table(self._title, phases, unread), refresh=True)


class LineView:
    """A line for each phase that changes its state, detail or cause."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._shown: dict[str, tuple[State, str, str]] = {}
        self._unread: set[str] = set()

    def show(self, phases: list[Phase], unread: Mapping[str, str]) -> None:
        """Says what is new."""
        for phase in phases:
            now = (phase.state, phase.detail, phase.cause.said if phase.cause else "")
            before = self._shown.get(phase.name)
            self._shown[phase.name] = now
            if now == before or (before is None and phase.state is State.WAITING):
                continue
            self._say(line(phase))
            if phase.cause and (before is None or before[2] != phase.cause.said):
                self._say(f"  why: {phase.cause.said}")
                self._say(f"  mend: {phase.cause.mend}")
        for what, reason in unread.items():
            if reason not in self._unread:
                self._unread.add(reason)
                self._say(f"not seen: {what}: {reason}")


class JsonView:
    """A JSON object a look: {"phases": [...], "unread": {...}}."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last = ""

    def show(self, phases: list[Phase], unread: Mapping[str, str]) -> None:
        """One line, where anything but the elapsed time has changed."""
        told = [(phase.name, phase.state, phase.detail, phase.cause) for phase in phases]
        if (key := repr((told, sorted(unread.items())))) != self._last:
            self._last = key
            self._say(json.dumps({"phases": [phase.as_dict() for phase in phases], "unread": dict(unread)}))


def line(phase: Phase) -> str:
    """A phase on one plain line."""
    times = f"{seconds(phase.elapsed):>8}" + (
        f"  usually {seconds(phase.usual)}" if phase.usual and phase.state is not State.DONE else ""
    )
    return f"{phase.state:8} {phase.name:15} {phase.detail:44} {times}".rstrip()


def table(title: str, phases: list[Phase], unread: Mapping[str, str]) -> RenderableType:
    """The whole view."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    grid = Table(show_edge=False, pad_edge=False, box=None, title=Text(title), title_justify="left")
    grid.add_column("", width=1)
    grid.add_column("phase", no_wrap=True)
    grid.add_column("so far", justify="right", no_wrap=True)
    grid.add_column("usually", justify="right", no_wrap=True)
    grid.add_column("", ratio=1)
    for phase in phases:
        mark, style = _MARKS[phase.state]
        name_style = (
            style if phase.state in (State.LATE, State.FAILED) else "dim" * (phase.state is State.WAITING)
        )
        grid.add_row(
            Text(mark, style=style),
            Text(phase.name, style=name_style),
            Text(seconds(phase.elapsed)),
            Text(seconds(phase.usual), style="dim"),
            Text("" if phase.state is State.WAITING else phase.detail),
        )
    notes: list[Text] = []
    for phase in phases:
        if phase.cause:
            notes += _explained(phase.name, phase.cause, _MARKS[phase.state][1])
    notes += [Text(f"not seen: {what}: {reason}", style="dim") for what, reason in unread.items()]
    return Group(grid, *([Text("")] if notes else []), *notes)


def _explained(name: str, cause: Cause, style: str) -> list[Text]:
    from rich.text import Text

    why = Text.assemble((f"{name}: ", style), cause.said)
    return [why, Text.assemble(("  mend: ", "bold"), cause.mend)]


def seconds(value: float | None) -> str:
    """A time that a person reads: 45 s, 3:20, 1:02:03."""
    if value is None:
        return ""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
