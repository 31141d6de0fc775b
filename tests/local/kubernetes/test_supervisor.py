"""Whether a cluster in the background runs."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import supervisor
from kvrelay.local.kubernetes.processes import Child, ProcessFailedError
from kvrelay.local.kubernetes.supervisor import Running


def write_state(folder: Path, pid: int, started: int) -> None:
    state = Running(pid, started, "https://127.0.0.1:1", "kubeconfig", nodes=3, isolated=True)
    (folder / "state.json").write_text(json.dumps(asdict(state)))


def test_nothing_runs_where_nothing_was_started(tmp_path: Path) -> None:
    assert supervisor.running(tmp_path) is None
    assert supervisor.down(tmp_path) is False


def test_another_process_with_the_same_id_is_never_ended(tmp_path: Path) -> None:
    # This very process's id, as if it had been handed out again.
    write_state(tmp_path, os.getpid(), started=1)
    assert supervisor.running(tmp_path) is None
    assert supervisor.down(tmp_path) is False


def test_a_child_that_ends_is_reported_with_its_last_words(tmp_path: Path) -> None:
    child = Child("etcd", ["sh", "-c", "echo no space left; exit 3"], tmp_path / "log")
    with pytest.raises(ProcessFailedError, match="etcd ended with 3: no space left"):
        child.wait_until(lambda: False, 10)


def test_a_child_that_does_not_start_in_time_is_reported(tmp_path: Path) -> None:
    child = Child("etcd", ["sleep", "60"], tmp_path / "log")
    with pytest.raises(ProcessFailedError, match="etcd is not ready after 0 s: it wrote nothing"):
        child.wait_until(lambda: False, 0)
    child.kill()
    assert child.exit_code is not None
