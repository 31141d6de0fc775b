"""A measurement as JSON, every request of it kept; read back, and put together with others. docs/bench.schema.json."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvrelay.bench.cells import Cell
from kvrelay.bench.figures import Figures, Goals
from kvrelay.bench.outcome import Ending, Outcome
from kvrelay.bench.request_set import Request
from kvrelay.bench.verdict import Verdict, pooled, verdicts
from kvrelay.errors import UserError

SCHEMA = "kvrelay-bench/1"


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured: `cells`, and under which conditions. `endpoints` has each name's url and more."""

    made: str
    machine: dict[str, Any]
    settings: dict[str, Any]
    endpoints: dict[str, dict[str, Any]]
    goals: Goals
    cells: tuple[Cell, ...] = ()

    @classmethod
    def begun(
        cls, settings: Mapping[str, Any], endpoints: Mapping[str, dict[str, Any]], goals: Goals
    ) -> Report:
        """An empty report of now and of this machine, where the load comes from."""
        machine = {
            "system": platform.platform(),
            "python": platform.python_version(),
            "processors": os.cpu_count() or 1,
            "load_average": round(os.getloadavg()[0], 2),
        }
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(now, machine, dict(settings), dict(endpoints), goals)

    def with_cell(self, cell: Cell) -> Report:
        return replace(self, cells=(*self.cells, cell))

    def judged_by(self, goals: Goals) -> Report:
        """The same measurement under other goals."""
        return replace(self, goals=goals)

    @property
    def verdicts(self) -> list[Verdict]:
        return verdicts(self.cells, self.goals)

    @property
    def groups(self) -> dict[tuple[float | None, str], list[Cell]]:
        """All rounds of each rate and endpoint, in the order of rates, then of endpoints."""
        names = list(dict.fromkeys(cell.endpoint for cell in self.cells))
        ordered = sorted(self.cells, key=lambda cell: (cell.rate or 0.0, names.index(cell.endpoint)))
        found: dict[tuple[float | None, str], list[Cell]] = {}
        for cell in ordered:
            found.setdefault((cell.rate, cell.endpoint), []).append(cell)
        return found

    def write(self, path: Path) -> None:
        """Writes it as JSON; what was at `path` stays until the last byte is there. Raises UserError."""
        new = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            new.write_text(json.dumps(as_json(self), separators=(",", ":")))
            new.replace(path)
        except OSError as error:
            raise UserError(f"{path} can't be written: {error.strerror}") from None


def as_json(report: Report, requests: bool = True) -> dict[str, Any]:
    """Plain values: seconds, tokens, and gaps in whole microseconds. Without `requests` only what follows from them."""
    figures = []
    for (rate, endpoint), cells in report.groups.items():
        kinds = dict.fromkeys(outcome.request.kind for cell in cells for outcome in cell.outcomes)
        for kind in (None, *kinds) if len(kinds) > 1 else (None,):
            found = _figures(pooled(cells, report.goals, kind))
            figures.append({"rate": rate, "endpoint": endpoint, "kind": kind, **found})
    plain: dict[str, Any] = {
        "schema": SCHEMA,
        "made": report.made,
        "machine": report.machine,
        "settings": report.settings,
        "endpoints": report.endpoints,
        "goals": {"ttft_s": report.goals.ttft, "itl_s": report.goals.itl},
        "verdicts": [_verdict(verdict) for verdict in report.verdicts],
        "figures": figures,
    }
    if requests:
        plain["cells"] = [_cell(cell) for cell in report.cells]
    return plain


def read_report(path: Path) -> Report:
    """A report that `write` made. Raises UserError, one line."""
    try:
        found = json.loads(path.read_bytes())
        if found["schema"] != SCHEMA:
            raise UserError(f"{path}: has schema {found['schema']!r}; this kvrelay reads {SCHEMA}")
        return Report(
            made=found["made"],
            machine=dict(found["machine"]),
            settings=dict(found["settings"]),
            endpoints=dict(found["endpoints"]),
            goals=Goals(float(found["goals"]["ttft_s"]), float(found["goals"]["itl_s"])),
            cells=tuple(_cell_of(cell) for cell in found["cells"]),
        )
    except OSError as error:
        raise UserError(f"{path} can't be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            f"{path} is not a whole report of kvrelay bench; `kvrelay bench --json` writes one"
        ) from None


def together(reports: Sequence[Report]) -> Report:
    """Several reports as one; endpoints that share a name are taken for one. The first one's conditions are shown."""
    first = reports[0]
    endpoints = {name: value for report in reversed(reports) for name, value in report.endpoints.items()}
    cells = tuple(cell for report in reports for cell in report.cells)
    return replace(first, endpoints=endpoints, cells=cells)


def _figures(found: Figures) -> dict[str, Any]:
    spreads = {
        "ttft_s": found.ttft,
        "ttft_from_sending_s": found.ttft_from_sending,
        "itl_s": found.itl,
        "tpot_s": found.tpot,
        "end_to_end_s": found.end_to_end,
        "client_late_s": found.late,
    }
    return {
        "requests": found.requests,
        "whole": found.whole,
        "failed": found.failed,
        "errors": found.errors,
        "prompt_tokens": found.prompt_tokens,
        "output_tokens": found.output_tokens,
        "output_tokens_per_s": found.output_tokens_per_s,
        "within_goals": found.within_goals,
        "goodput_requests_per_s": found.goodput,
        "stalled_answers": found.stalled,
        "stalls": found.stalls,
        "tokens_counted_by_endpoint": found.exact,
        **{name: asdict(spread) if spread else None for name, spread in spreads.items()},
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "rate": verdict.rate,
        "subject": verdict.subject,
        "other": verdict.other,
        "pays": verdict.pays,
        "requests": verdict.requests,
        "gained": verdict.gained,
        "lost": verdict.lost,
        "chance": verdict.chance,
        "text": verdict.text,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "endpoint": cell.endpoint,
        "rate": cell.rate,
        "round": cell.round,
        "asked": cell.asked,
        "load_s": cell.load_seconds,
        "elapsed_s": cell.elapsed,
        "client_cpu_s": cell.client_cpu,
        "requests": [_outcome(outcome) for outcome in cell.outcomes],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    request = outcome.request
    return {
        "at_s": request.at,
        "kind": request.kind,
        "asked_prompt_tokens": request.prompt_tokens,
        "asked_answer_tokens": request.answer_tokens,
        "sent_s": outcome.sent,
        "first_token_s": outcome.first_token,
        "ended_s": outcome.ended,
        "gaps_us": list(outcome.gaps_us),
        "ending": outcome.ending.value,
        "status": outcome.status,
        "finish_reason": outcome.finish_reason,
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "exact": outcome.exact,
        "error": outcome.error,
    }


def _cell_of(found: Mapping[str, Any]) -> Cell:
    return Cell(
        endpoint=str(found["endpoint"]),
        rate=None if found["rate"] is None else float(found["rate"]),
        round=int(found["round"]),
        asked=str(found["asked"]),
        load_seconds=float(found["load_s"]),
        elapsed=float(found["elapsed_s"]),
        client_cpu=float(found["client_cpu_s"]),
        outcomes=tuple(_outcome_of(each) for each in found["requests"]),
    )


def _outcome_of(found: Mapping[str, Any]) -> Outcome:
    return Outcome(
        request=Request(
            float(found["at_s"]),
            int(found["asked_prompt_tokens"]),
            int(found["asked_answer_tokens"]),
            str(found["kind"]),
        ),
        sent=float(found["sent_s"]),
        ended=float(found["ended_s"]),
        ending=Ending(found["ending"]),
        first_token=None if found["first_token_s"] is None else float(found["first_token_s"]),
        gaps_us=tuple(map(int, found["gaps_us"])),
        prompt_tokens=int(found["prompt_tokens"]),
        completion_tokens=int(found["completion_tokens"]),
        exact=bool(found["exact"]),
        status=int(found["status"]),
        finish_reason=found["finish_reason"],
        error=str(found["error"]),
    )
