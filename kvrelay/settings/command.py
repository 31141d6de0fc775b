"""kvrelay schema: the JSON schema of deployment.yaml, for editors."""

from __future__ import annotations

import ast
import inspect
import json
from typing import Any

import click

from kvrelay.settings import Deployment, deployment


@click.command()
def schema() -> None:
    """Print the JSON schema of deployment.yaml.

    Editors complete the file with it: the first line of deployment.yaml names
    deployment.schema.json, which `kvrelay schema > deployment.schema.json` renews.
    """
    click.echo(json.dumps(described_schema(), indent=2))


def described_schema() -> dict[str, Any]:
    """The schema with the docstring of each setting as its description.

    Pydantic would read them too, at each start of every command, which costs more than the models themselves.
    """
    made = Deployment.model_json_schema()
    for name, texts in _setting_docstrings().items():
        model = made if name == Deployment.__name__ else made["$defs"].get(name, {})
        for setting, text in texts.items():
            if setting in model.get("properties", {}):
                model["properties"][setting]["description"] = text
    return made


def _setting_docstrings() -> dict[str, dict[str, str]]:
    """The string below each setting in the source, by class and setting."""
    found: dict[str, dict[str, str]] = {}
    for part in ast.parse(inspect.getsource(deployment)).body:
        if isinstance(part, ast.ClassDef):
            texts = found[part.name] = {}
            for line, following in zip(part.body, part.body[1:], strict=False):
                is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and is_text:
                    texts[line.target.id] = inspect.cleandoc(following.value.value)  # type: ignore[attr-defined]
    return found
