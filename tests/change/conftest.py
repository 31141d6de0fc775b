"""Synthesizes deployments in one process, each once: a jsii start costs more than many synths."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

os.environ.setdefault("CDK_VALIDATION", "false")

ROOT = Path(__file__).parents[2]
Checkout = Callable[..., Path]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Makes a synthesized checkout of a deployment (YAML) and edits (old text, new text) to its Serve configs."""

    @cache
    def made(deployment: str = "{}", *edits: tuple[str, str]) -> Path:
        from app import build, new_app
        from kvrelay.settings import read_deployment

        folder = tmp_path_factory.mktemp("checkout")
        (folder / "deployment.yaml").write_text(deployment)
        (folder / "serve_configs").mkdir()
        for file in (ROOT / "serve_configs").glob("*.yaml"):
            text = file.read_text()
            for old, new in edits:
                text = text.replace(old, new)
            (folder / "serve_configs" / file.name).write_text(text)
        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        app = new_app(context=context, outdir=str(folder / "cdk.out"))
        build(app, read_deployment(folder / "deployment.yaml"))
        app.synth()
        return folder

    return made
