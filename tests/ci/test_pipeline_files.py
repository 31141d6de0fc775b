"""The pipelines' files: valid, pinned, and allowed no more than they need."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.cli import COMMANDS

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
GITLAB = ROOT / "ci/gitlab-ci.yml"
BIN = Path(sys.executable).parent
by_name = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)


def _run(*command: object) -> str:
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _jobs(file: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(file.read_text())["jobs"]
    return jobs


def test_zizmor_finds_nothing() -> None:
    assert _run(BIN / "zizmor", "--offline", "--no-progress", "--quiet", *WORKFLOWS) == ""


def test_github_takes_the_workflows() -> None:
    assert _run(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS) == ""


def test_gitlab_takes_the_pipeline() -> None:
    command = (
        BIN / "check-jsonschema",
        "--builtin-schema",
        "vendor.gitlab-ci",
        "--data-transform",
        "gitlab-ci",
    )
    assert _run(*command, GITLAB) == ""


@by_name
def test_every_action_is_pinned_to_a_commit_with_its_version_beside_it(file: Path) -> None:
    for line in re.findall(r"uses: .*", file.read_text()):
        assert re.fullmatch(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)


@by_name
def test_a_job_has_only_the_permissions_it_names(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["permissions"] == {}
    for name, job in _jobs(file).items():
        writes = {key for key, value in job["permissions"].items() if value == "write"}
        uses = str([step.get("uses") or step["run"] for step in job["steps"]])
        needed = {
            "id-token": "configure-aws-credentials",
            "pull-requests": "report.py comment",
            "issues": "watch-drift",
            "security-events": "upload-sarif",
        }
        assert writes == {key for key, use in needed.items() if use in uses}, name


@by_name
def test_no_key_is_kept_in_the_forge(file: Path) -> None:
    assert "secrets." not in file.read_text()
    assert "aws-secret-access-key" not in file.read_text()


def test_only_the_job_that_waits_for_approval_takes_the_deploy_role() -> None:
    for file in WORKFLOWS:
        for job in _jobs(file).values():
            takes = "AWS_DEPLOY_ROLE_ARN" in str(job["steps"])
            assert takes == (job.get("environment") == "production")


@pytest.mark.parametrize("file", [*WORKFLOWS, GITLAB, ROOT / "ci/watch-drift"], ids=lambda file: file.stem)
def test_every_step_is_a_command_that_exists(file: Path) -> None:
    text = re.sub(r"^\s*#.*$", "", file.read_text(), flags=re.MULTILINE)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= targets
    assert set(re.findall(r"\bkvrelay ([a-z]+) ", text)) <= {*COMMANDS}
    for script in re.findall(r"(?<![\w/])\.?ci/[\w-]+(?:\.py)?(?!\.yml)\b", text):
        assert (ROOT / script).is_file()
        assert script.endswith(".py") or os.access(ROOT / script, os.X_OK)
