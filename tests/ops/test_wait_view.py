"""kvrelay wait shows phases as one live table in a terminal, as lines elsewhere, and as JSON for machines."""

from __future__ import annotations

import importlib.util
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

import kvrelay
from kvrelay.ops.wait.following import Outcome, follow
from kvrelay.ops.wait.judging import judge
from kvrelay.ops.wait.snapshot import Snapshot
from kvrelay.ops.wait.view import JsonView, LineView, seconds, table
from tests.ops.recorded import world
from tests.ops.recorded.world import WANTED

PROJECT = Path(kvrelay.__file__).parents[1]
PENDING = world.unscheduled("0/2 nodes are available: 1 Insufficient nvidia.com/gpu.")


def shown(snapshot: Snapshot) -> str:
    console = Console(width=100, record=True, file=open(os.devnull, "w"), color_system=None)  # noqa: SIM115, PTH123
    console.print(table("kvrelay in us-east-2", judge(snapshot, WANTED), snapshot.unread))
    return console.export_text()


def test_the_table_shows_every_phase_with_its_times_and_the_causes_below() -> None:
    text = shown(world.with_worker(PENDING))

    assert re.search(r"✓ +network +2:50 +3:00 +CREATE_COMPLETE", text)
    assert re.search(r"! +workers placed +2:00 +45 s +prefill 1 of 1, decode 0 of 1", text)
    assert re.search(r"· +weights +2:25 *\n", text)
    assert text.count("no node has a free GPU") == 1
    assert "workers placed: decode pod ray-llm-decode-b waits: no node has a free GPU" in text
    assert "mend: each of 2 GPU nodes takes one worker" in text


def test_the_table_says_what_it_could_not_see() -> None:
    assert "not seen: events: not allowed to your IAM identity" in shown(
        replace(world.serving(), unread={"events": "not allowed to your IAM identity: forbidden"})
    )


def test_lines_are_said_once_for_each_change_and_not_for_time_that_passes() -> None:
    said: list[str] = []
    view = LineView(said.append)

    for snapshot in (world.pulling(), replace(world.pulling(), at=world.at(22)), world.with_worker(PENDING)):
        view.show(judge(snapshot, WANTED), snapshot.unread)

    placed = [line for line in said if "workers placed" in line]
    assert [line.split()[0] for line in placed] == ["done", "late"]
    assert [line for line in said if line.startswith("  why: decode pod")] != []
    assert all("\n" not in line for line in said)


def test_json_has_one_object_a_change_with_a_stable_schema() -> None:
    said: list[str] = []
    view = JsonView(said.append)

    for snapshot in (world.with_worker(PENDING), replace(world.with_worker(PENDING), at=world.at(22))):
        view.show(judge(snapshot, WANTED), snapshot.unread)

    assert len(said) == 1
    told = json.loads(said[0])
    assert set(told) == {"phases", "unread"}
    assert {tuple(sorted(phase)) for phase in told["phases"]} == {
        ("cause", "detail", "elapsed_s", "phase", "state", "usual_s")
    }
    (late,) = [phase for phase in told["phases"] if phase["state"] == "late"]
    assert set(late["cause"]) == {"name", "said", "mend"}


def test_following_ends_with_the_first_token() -> None:
    way = iter([world.before(), world.loading(), world.serving()])
    said: list[str] = []

    end = follow(lambda: next(way), WANTED, LineView(said.append), timeout=30, every=0.01)

    assert end.outcome is Outcome.SERVED
    assert said[-1].startswith("done")


def test_following_ends_at_once_with_a_cause_that_no_waiting_mends() -> None:
    broken = replace(world.loading(), ray_service=world.service("DEPLOY_FAILED", "ValueError: no"))

    end = follow(lambda: broken, WANTED, LineView(lambda line: None), timeout=600, every=600)

    assert end.outcome is Outcome.FAILED


def test_a_look_that_hangs_is_given_up_and_what_was_seen_before_stands() -> None:
    looks = iter([world.pulling])
    said: list[str] = []
    ended = threading.Event()

    def look() -> Snapshot:
        try:
            return next(looks)()
        except StopIteration:
            ended.wait()
            raise

    end = follow(look, WANTED, LineView(said.append), timeout=1.5, every=0.1)
    ended.set()

    assert end.outcome is Outcome.TIMED_OUT
    assert end.snapshot.pods == world.pulling().pods
    assert said[-1] == "not seen: this time: no answer; what was seen before is shown"


def test_without_any_time_one_look_still_ends() -> None:
    def look() -> Snapshot:
        time.sleep(1.5)
        return world.pulling()

    end = follow(look, WANTED, LineView(lambda line: None), timeout=0, every=0.1)

    assert end.snapshot.pods == world.pulling().pods


def test_following_gives_up_in_time() -> None:
    began = time.monotonic()

    end = follow(lambda: world.pulling(), WANTED, LineView(lambda line: None), timeout=0.3, every=0.1)

    assert end.outcome is Outcome.TIMED_OUT
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (4.6, "5 s"), (200, "3:20"), (3723, "1:02:03")], ids=str
)
def test_times_are_written_as_people_read_them(value: float | None, text: str) -> None:
    assert seconds(value) == text


PROGRAM = """
from rich.console import Console
from kvrelay.ops.wait.following import follow
from kvrelay.ops.wait.view import LiveView
from tests.ops.recorded import world
way = iter([world.before(), world.making_cluster(), world.loading(), world.serving()])
with LiveView("kvrelay in us-east-2", Console(emoji=False)) as view:
    follow(lambda: next(way), world.WANTED, view, timeout=60, every=0.2)
"""


def in_a_terminal(*command: str) -> str:
    """What a program writes to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "PYTHONPATH": "."}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                output += os.read(ours, 65536)
            except OSError:
                break
        elif process.poll() is not None:
            break
    process.wait(timeout=10)
    os.close(ours)
    return output.decode()


def test_in_a_real_terminal_the_table_renews_itself_in_place() -> None:
    text = in_a_terminal(sys.executable, "-c", PROGRAM)

    assert text.count("\x1b[1A") >= 3 * 14  # the cursor goes up over the table before each renewal
    assert "\x1b[?25l" in text
    assert text.rstrip().endswith("\x1b[?25h")  # it was hidden, and is there again
    assert "\x1b[32m✓" in text
    assert "Traceback" not in text


def test_the_pictures_in_docs_are_what_the_view_draws() -> None:
    spec = importlib.util.spec_from_file_location("wait_pictures", PROJECT / "docs/wait_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)

    for name, snapshot in drawing.PICTURES.items():
        kept = (PROJECT / f"docs/pictures/{name}.svg").read_text()
        assert kept == drawing.picture(name, snapshot), "run: PYTHONPATH=. python docs/wait_pictures.py"
