"""Synthesizes deployments in one process: a jsii start costs more than many synths."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# Set before jsii starts: CDK's own template validation has one test of its own, and costs seconds each time.
os.environ.setdefault("CDK_VALIDATION", "false")

REPOSITORY = Path(__file__).parents[2]
Template = dict[str, Any]


class Synthesized:
    """The templates of one deployment by stack id."""

    def __init__(self, templates: dict[str, Template]) -> None:
        self.templates = templates

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
    import aws_cdk as cdk

    from app import build
    from kvrelay.settings import read_deployment

    context = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "deployment.yaml"
        (Path(folder) / "serve_configs").symlink_to(REPOSITORY / "serve_configs")
        file.write_text(overrides)
        app = cdk.App(context=context, outdir=f"{folder}/cdk.out")
        build(app, read_deployment(file))
        assembly = app.synth()
        return Synthesized({stack.id: stack.template for stack in map(_Stack, assembly.stacks)})


class _Stack:
    def __init__(self, artifact: Any) -> None:
        self.id: str = artifact.id
        self.template: Template = json.loads(Path(artifact.template_full_path).read_text())


@pytest.fixture(scope="session")
def reference() -> Synthesized:
    """The reference deployment: every setting at its default."""
    return synthesize("name: kvrelay\n")


@pytest.fixture(scope="session")
def synth() -> Callable[[str], Synthesized]:
    """Synthesizes a deployment from the YAML of its settings."""
    return synthesize
