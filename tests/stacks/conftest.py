"""Synthesizes deployments in one process: a jsii start costs more than many synths."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest

# Set before jsii starts: CDK's own template validation has one test of its own, and costs seconds each time.
os.environ.setdefault("CDK_VALIDATION", "false")

REPOSITORY = Path(__file__).parents[2]
Template = dict[str, Any]


class Cdk(Protocol):
    """Runs the real cdk command line in the repository."""

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]: ...


class Synthesized:
    """The templates of one deployment by stack id."""

    def __init__(self, templates: dict[str, Template], metadata: dict[str, list[dict[str, Any]]]) -> None:
        self.templates = templates
        self.metadata = metadata

    def of_type(self, kind: str, stack: str | None = None) -> dict[str, Template]:
        """Resources of a type by logical id, from one stack or all."""
        chosen = [self.templates[stack]] if stack else self.templates.values()
        return {
            name: resource
            for template in chosen
            for name, resource in template.get("Resources", {}).items()
            if resource["Type"] == kind
        }

    def only(self, kind: str, stack: str | None = None) -> Template:
        """The properties of the one resource of a type."""
        (resource,) = self.of_type(kind, stack).values()
        properties: Template = resource["Properties"]
        return properties


@cache
def synthesize(overrides: str) -> Synthesized:
    """Synthesizes a deployment whose file holds `overrides` (YAML), beside the project's serve configs."""
    from app import build, new_app
    from kvrelay.settings import read_deployment

    context = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "deployment.yaml"
        (Path(folder) / "serve_configs").symlink_to(REPOSITORY / "serve_configs")
        file.write_text(overrides)
        app = new_app(context=context, outdir=f"{folder}/cdk.out")
        build(app, read_deployment(file))
        folder_out = Path(app.synth().directory)
        return Synthesized(
            {
                file.name.partition(".")[0]: json.loads(file.read_text())
                for file in sorted(folder_out.glob("*.template.json"))
            },
            {
                path: entries
                for file in sorted(folder_out.glob("*.metadata.json"))
                for path, entries in json.loads(file.read_text()).items()
            },
        )


@pytest.fixture(scope="session")
def reference() -> Synthesized:
    """The reference deployment: every setting at its default."""
    return synthesize("name: kvrelay\n")


@pytest.fixture(scope="session")
def synth() -> Callable[[str], Synthesized]:
    """Synthesizes a deployment from the YAML of its settings."""
    return synthesize


@pytest.fixture
def cdk(tmp_path: Path) -> Cdk:
    """The real cdk command line; its output folder and home are the test's own."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [REPOSITORY / "node_modules/.bin/cdk", *arguments, "--output", tmp_path / "cdk.out"],
            cwd=REPOSITORY,
            env={
                "PATH": f"{REPOSITORY}/.venv/bin:/usr/bin:/bin",
                "HOME": str(tmp_path),
                "CDK_VALIDATION": "false",
                "CDK_DISABLE_CLI_TELEMETRY": "true",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run
