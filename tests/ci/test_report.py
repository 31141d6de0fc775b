"""One comment, one issue: made once, then kept up to date."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ci.forge import Forge, running

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["github", "gitlab"])
def forge(request: pytest.FixtureRequest) -> Iterator[Forge]:
    with running(request.param) as started:
        yield started


def _report(forge: Forge, *arguments: str, **without: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **forge.environment, **without}
    return subprocess.run(
        [sys.executable, ROOT / "ci/report.py", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def _file(folder: Path, text: str) -> str:
    (folder / "found.md").write_text(text)
    return str(folder / "found.md")


def test_a_pull_request_has_one_comment_that_is_updated_in_place(forge: Forge, tmp_path: Path) -> None:
    forge.comments += [{"id": 1000 + each, "body": "someone else's"} for each in range(150)]
    for text in ("first", "second"):
        done = _report(forge, "comment", _file(tmp_path, text))
        assert done.returncode == 0, done.stderr
    ours = [each["body"] for each in forge.comments if "someone" not in each["body"]]
    assert [body.splitlines()[1] for body in ours] == ["second"]


def test_drift_has_one_open_issue_until_it_is_resolved(forge: Forge, tmp_path: Path) -> None:
    forge.add_issue("something else")
    for text in ("one resource", "two resources"):
        assert _report(forge, "issue", _file(tmp_path, text)).returncode == 0
    assert [each.get("title") for each in forge.open_issues] == [None, "What runs is not what was deployed"]
    assert "two resources" in str(forge.open_issues[1])
    assert _report(forge, "resolve").stdout == "closed issue 2\n"
    assert len(forge.open_issues) == 1
    assert _report(forge, "resolve").stdout == "no open issue about drift\n"


def test_drift_that_comes_back_opens_a_new_issue(forge: Forge, tmp_path: Path) -> None:
    for arguments in (("issue", _file(tmp_path, "drift")), ("resolve",), ("issue", _file(tmp_path, "drift"))):
        _report(forge, *arguments)
    assert [each["state"] for each in forge.issues] == ["closed", "open"]


def test_a_text_too_long_for_a_comment_is_cut_at_a_line(forge: Forge, tmp_path: Path) -> None:
    assert _report(forge, "comment", _file(tmp_path, "row of a table\n" * 9000)).returncode == 0
    (comment,) = forge.comments
    assert len(comment["body"]) < 65_536
    assert comment["body"].endswith("row of a table\n\nThe rest stands in the job's own output.\n")


def test_a_token_that_may_not_write_is_one_line(forge: Forge, tmp_path: Path) -> None:
    forge.writable = False
    done = _report(forge, "comment", _file(tmp_path, "text"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "403" in done.stderr


def test_a_missing_token_is_one_line(forge: Forge, tmp_path: Path) -> None:
    name = "GITHUB_TOKEN" if forge.kind == "github" else "GITLAB_TOKEN"
    done = _report(forge, "resolve", **{name: ""})
    assert done.stderr == f"report: {name} is not set; see the head of ci/report.py\n"
