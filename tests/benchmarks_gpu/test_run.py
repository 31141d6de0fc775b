"""A run goes on with what it found."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.engines import Place
from benchmarks.gpu.run import _out_of_time, fastest, run_one
from benchmarks.gpu.steps import STEPS, Notes, Plan


def measured(*speeds: float, right: bool = True) -> dict[str, Any]:
    return {"measured": [{"gb_per_s": speed, "right": right} for speed in speeds]}


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"UCX_TLS=unset": measured(200, 9), "UCX_TLS=tcp": measured(50, 0.4)}, ("", 9)),
        ({"UCX_TLS=unset": measured(0.4, 0.4), "UCX_TLS=cuda_ipc": measured(200, 12)}, ("cuda_ipc", 12)),
        ({"UCX_TLS=unset": measured(9), "UCX_TLS=cuda_ipc": measured(90, right=False)}, ("", 9)),
        ({"UCX_TLS=unset": {"failed": "no transport"}, "begun": "now"}, ("", 0)),
    ],
)
def test_the_fastest_right_transport_in_many_pieces_is_taken(
    found: dict[str, Any], chosen: tuple[str, float], tmp_path: Path
) -> None:
    file = tmp_path / "transport.json"
    file.write_text(json.dumps(found))
    assert fastest(file) == chosen


def test_without_a_measurement_ucx_chooses(tmp_path: Path) -> None:
    assert fastest(tmp_path / "transport.json") == ("", 0)


def test_a_failed_step_leaves_what_it_knew_and_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(plan: Plan, notes: Notes) -> None:
        with notes.trying("first"):
            raise ValueError("one part is broken")
        notes.note("second", 2)
        raise ValueError("and then all of it")

    monkeypatch.setitem(STEPS, "machine", step)
    plan = Plan(Place("cpu", tmp_path), tmp_path / "out", "tiny", 1, (1.0,), 1, "", 1)
    assert not run_one("machine", plan)
    found = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert found["first"] == {"failed": "ValueError: one part is broken"}
    assert found["second"] == 2
    assert "and then all of it" in found["error"]


def test_the_end_of_a_steps_time_is_no_error_of_what_it_was_doing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(plan: Plan, notes: Notes) -> None:
        with notes.trying("first"), contextlib.suppress(Exception):
            _out_of_time()
        notes.note("second", "never")

    monkeypatch.setitem(STEPS, "machine", step)
    plan = Plan(Place("cpu", tmp_path), tmp_path / "out", "tiny", 1, (1.0,), 1, "", 1)
    assert not run_one("machine", plan)
    found = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert "the step's time is up" in found["error"]
    assert "second" not in found
