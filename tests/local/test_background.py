"""Background processes are known by id and start, waited for with their last words, and ended by id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from kvrelay.local.aws import supervisor as aws
from kvrelay.local.background import end, started_at, wait_until_up
from kvrelay.local.kubernetes import supervisor as kubernetes

# Says when it is ready, so that no signal comes before it is ignored.
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('', flush=True); time.sleep(60)"


def states(pid: int, started: int) -> dict[str, object]:
    return {
        "aws": aws.Running(pid, started, "http://localhost:1", "us-east-2", False),
        "kubernetes": kubernetes.Running(pid, started, "https://127.0.0.1:1", "kubeconfig", 3, True),
    }


@pytest.mark.parametrize("kind", ["aws", "kubernetes"])
def test_what_runs_is_known_by_id_and_start_and_a_later_process_is_not(kind: str, tmp_path: Path) -> None:
    module = {"aws": aws, "kubernetes": kubernetes}[kind]
    own = started_at(os.getpid())
    assert own is not None
    for started, runs in ((own, True), (own + 1, False)):
        state = states(os.getpid(), started)[kind]
        (tmp_path / "state.json").write_text(json.dumps(asdict(state)))  # type: ignore[call-overload]
        assert (module.running(tmp_path) is not None) is runs


@pytest.mark.parametrize(
    ("program", "seconds", "ended_by"),
    [
        ("print('', flush=True); import time; time.sleep(60)", 20, signal.SIGTERM),
        (STUBBORN, 0.2, signal.SIGKILL),
    ],
    ids=["at once", "when it will not"],
)
def test_a_process_is_ended(program: str, seconds: float, ended_by: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        started = started_at(process.pid)
        assert started is not None
        end(process.pid, started, seconds)
        assert started_at(process.pid) is None
        assert process.wait(10) == -ended_by


def test_one_that_ends_before_it_is_up_is_told_by_its_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(["sh", "-c", "echo port 80 is taken; exit 3"], stdout=output)
    assert wait_until_up(process, lambda: None, log, 20) == (None, "port 80 is taken")
