"""Runs the `run:` steps of a workflow's job as a runner does, with stand-ins for what only the forge has."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


@dataclass
class Runner:
    """A runner's machine: one checkout, and what steps leave for later steps."""

    checkout: Path
    environment: dict[str, str]
    """What each step starts with, beside its own."""
    expressions: Mapping[str, str]
    """Values of the expressions in a job's or step's `env`."""
    ran: list[str] = field(default_factory=list)

    def job(self, workflow: str, name: str) -> dict[str, str]:
        """Runs a job's steps in order; returns its outputs. Raises AssertionError with a failed step's output."""
        job = yaml.safe_load((self.checkout / f".github/workflows/{workflow}.yml").read_text())["jobs"][name]
        folder = self.checkout.parent / f"runner-{workflow}-{name}"
        folder.mkdir(exist_ok=True)
        files = {each: folder / each for each in ("GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("")
        job_environment = self._values(job.get("env", {}))
        self.ran = []
        for step in job["steps"]:
            if "run" not in step or not _holds(step.get("if"), job_environment):
                continue
            before = [*files["GITHUB_PATH"].read_text().splitlines(), os.environ["PATH"]]
            environment = {
                **self.environment,
                **{key: str(file) for key, file in files.items()},
                **job_environment,
                **self._values(step.get("env", {})),
                "PATH": os.pathsep.join(before),
            }
            self.shell(step["run"], environment)
            self.ran.append(step["name"])
        return dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())

    def shell(self, script: str, environment: Mapping[str, str]) -> None:
        """One script, as `bash -e` runs it."""
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=self.checkout,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"

    def _values(self, given: dict[str, Any]) -> dict[str, str]:
        return {key: self._value(str(value).strip()) for key, value in given.items()}

    def _value(self, text: str) -> str:
        found = re.fullmatch(r"\$\{\{ (.*) \}\}", text)
        return self.expressions[found[1]] if found else text


def _holds(condition: str | None, environment: Mapping[str, str]) -> bool:
    if condition is None:
        return True
    found = re.fullmatch(r"env\.(\w+) (==|!=) '(.*)'", condition)
    assert found, f"this runner does not know the condition {condition}"
    return (environment[found[1]] == found[3]) == (found[2] == "==")
