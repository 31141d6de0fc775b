"""This machine as a target: the CPU target of kvrelay.serve_app, and the ingress whose errors are clean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kvrelay.local.serving.environment import PROJECT
from kvrelay.serve_app import INGRESS_MODULE, Cpu, Rendered, ServeApp, load_serve_app, render
from kvrelay.serve_app.ingress import clean_errors
from kvrelay.serve_app.rendering import Edit, Kind
from kvrelay.settings import read_deployment


@dataclass(frozen=True)
class Here:
    """Two engines on this machine's CPU, serving the model in the folder `model`."""

    model: Path
    name: str = "local"

    def edits(self, app: ServeApp) -> Iterator[Edit]:
        yield from Cpu(str(self.model)).edits(app)
        yield from clean_errors(app, str(INGRESS_MODULE.parent))
        for engine in app.engines:
            options = (*engine.path, "deployment_config")
            yield Edit((*options, "health_check_period_s"), 2, "a dead engine is seen sooner", Kind.DEFAULT)


def rendered_here(config: Path | None, model: Path) -> tuple[ServeApp, Rendered]:
    """A portable config as it runs here; without one, the config that deployment.yaml names."""
    if config is None:
        config = read_deployment(PROJECT / "deployment.yaml").serve_config_path
    app = load_serve_app(config)
    return app, render(app, Here(model))
