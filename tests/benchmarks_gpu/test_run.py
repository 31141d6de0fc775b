"""A run goes on with what it found."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.gpu.engines import Place
from benchmarks.gpu.run import _out_of_time, fastest, main, run_one
from benchmarks.gpu.serving import port_quarrels, processor_seconds
from benchmarks.gpu.steps import STEPS, Notes, Plan, _programs, variables_of


def measured(*speeds: float, right: bool = True) -> dict[str, Any]:
    return {"measured": [{"gb_per_s": speed, "right": right} for speed in speeds]}


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ({"UCX: its own choice": measured(200, 9), "UCX: UCX_TLS=tcp": measured(50, 0.4)}, ("", 9)),
        (
            {"UCX: its own choice": measured(0.4, 0.4), "UCX: UCX_TLS=cuda_ipc": measured(200, 12)},
            ("UCX_TLS=cuda_ipc", 12),
        ),
        ({"UCX: its own choice": measured(9), "UCX: UCX_X=on": measured(90, right=False)}, ("", 9)),
        ({"UCX: its own choice": {"failed": "no transport"}, "begun": "now"}, ("", None)),
    ],
)
def test_the_fastest_right_transport_in_many_pieces_is_taken(
    found: dict[str, Any], chosen: tuple[str, float | None], tmp_path: Path
) -> None:
    file = tmp_path / "transport.json"
    file.write_text(json.dumps(found))
    assert fastest(file) == chosen


def test_without_a_measurement_ucx_chooses(tmp_path: Path) -> None:
    assert fastest(tmp_path / "transport.json") == ("", None)


def test_a_failed_step_leaves_what_it_knew_and_why_it_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step(plan: Plan, notes: Notes) -> None:
        with notes.trying("first"):
            raise ValueError("one part is broken")
        notes.note("second", 2)
        raise ValueError("and then all of it")

    monkeypatch.setitem(STEPS, "machine", step)
    plan = Plan(Place("cpu", tmp_path), tmp_path / "out", "tiny", 1, (1.0,), 1, {}, 1)
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
    plan = Plan(Place("cpu", tmp_path), tmp_path / "out", "tiny", 1, (1.0,), 1, {}, 1)
    assert not run_one("machine", plan)
    found = json.loads((tmp_path / "out" / "machine.json").read_text())
    assert "the step's time is up" in found["error"]
    assert "second" not in found


def test_settings_of_ucx_are_names_and_values() -> None:
    assert variables_of("UCX_TLS=cuda_copy,tcp UCX_LOG_LEVEL=info") == {
        "UCX_TLS": "cuda_copy,tcp",
        "UCX_LOG_LEVEL": "info",
    }
    assert variables_of("") == {}


@pytest.mark.parametrize("settings", ["tcp", "UCX_TLS=", "UCX_TLS tcp", "TLS=tcp"])
def test_settings_that_are_none_of_ucx_are_refused(settings: str) -> None:
    with pytest.raises(ValueError, match="wanted UCX_NAME=VALUE"):
        variables_of(settings)


@pytest.mark.parametrize(
    ("gpus", "where"), [(1, ["0", "0", "0"]), (2, ["0", "1", "0"]), (4, ["0", "1", "0"])]
)
def test_decode_has_a_gpu_of_its_own_where_there_are_two(gpus: int, where: list[str], tmp_path: Path) -> None:
    plan = Plan(Place("cuda", tmp_path), tmp_path, "Qwen/Qwen3-8B", gpus, (1.0,), 1, {}, 1)
    prefill, decode, _, plain = _programs(plan, "any", 9000, tmp_path, {}, {}, plain=True)
    assert [each.environment["CUDA_VISIBLE_DEVICES"] for each in (prefill, decode, plain)] == where


def test_on_a_cpu_no_gpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    plan = Plan(Place("cpu", tmp_path), tmp_path, "tiny", 2, (1.0,), 1, {}, 1)
    for program in _programs(plan, "any", 9000, tmp_path, {}, {}, plain=True):
        assert "CUDA_VISIBLE_DEVICES" not in program.environment


@pytest.mark.parametrize(
    ("argument", "value", "told"),
    [
        ("--pool-seconds", "-5", "'-5' is no number over 0"),
        ("--load-seconds", "nan", "'nan' is no number over 0"),
        ("--seconds", "ten", "'ten' is no number over 0"),
        ("--load-rate", "0", "'0' is no number over 0"),
        ("--rates", "4,,8", "'' is no number over 0"),
        ("--gpus", "0", "'0' is no number of GPUs"),
        ("--block-sizes", "16,x", "'16,x': wanted multiples of 16"),
        ("--block-sizes", "16,24", "'16,24': wanted multiples of 16"),
        ("--model", "Qwen/Qwen9", "Qwen/Qwen9"),
        ("--ucx", "tcp", "wanted UCX_NAME=VALUE"),
        ("--steps", "serv", "serv unknown; there are machine, transport"),
    ],
)
def test_an_argument_that_can_not_be_right_is_refused_before_anything_runs(
    argument: str,
    value: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.argv", ["run", "--out", str(tmp_path / "out"), f"{argument}={value}"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert argument in error
    assert told in error
    assert not (tmp_path / "out").exists()


def test_quarrels_for_ports_of_a_later_start_are_told_apart_whatever_their_logs_are_called(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "ray" / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "worker-b.err").write_text("[Errno 98] Address already in use\nall is well\n")
    before = port_quarrels(Place("cpu", tmp_path))
    (logs / "worker-a.err").write_text("EADDRINUSE: port 100\n")
    assert port_quarrels(Place("cpu", tmp_path)) - before == {"worker-a.err: EADDRINUSE: port 100"}


def test_processor_time_is_told_by_what_a_process_of_serve_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(title: str | None, user: float = 1.0) -> SimpleNamespace:
        info: dict[str, Any] = {"cmdline": None if title is None else [title], "cpu_times": None}
        if title is not None:
            info["cpu_times"] = SimpleNamespace(user=user, system=0.5)
        return SimpleNamespace(info=info)

    running = [
        process("ray::ServeReplica:pd:OpenAiIngress    "),
        process("ray::ServeReplica:pd:OpenAiIngress.handle_request_streaming", 2.0),
        process("ray::ServeReplica:pd:Decode:random"),
        process("ray::ProxyActor"),
        process("VLLM::EngineCore"),
        process(None),
    ]
    monkeypatch.setitem(sys.modules, "psutil", SimpleNamespace(process_iter=lambda _: running))
    assert processor_seconds() == {"OpenAiIngress": 4.0, "Decode": 1.5, "proxy": 1.5}
