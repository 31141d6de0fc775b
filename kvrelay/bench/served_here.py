"""Serves prefill/decode and ordinary replicas of one config on this machine's CPU, one after the other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvrelay.errors import UserError
from kvrelay.local.serving import control
from kvrelay.local.serving.command import STATE
from kvrelay.local.serving.environment import require_environment
from kvrelay.local.serving.session import SessionFolder
from kvrelay.local.serving.target import Here, rendered_here
from kvrelay.local.serving.tiny_model import tiny_model
from kvrelay.ops.endpoint import Endpoint
from kvrelay.serve_app import Rendered, ServeApp, ordinary_replicas, render
from kvrelay.serve_app.rendering import Edit
from kvrelay.settings import Role


@dataclass(frozen=True)
class _ManyHere:
    """This machine, with `replicas` engines of a plain app instead of one."""

    here: Here
    replicas: int
    name: str = "local"

    def edits(self, app: ServeApp) -> Iterator[Edit]:
        yield from self.here.edits(app)
        for engine in app.engines:
            path = (*engine.path, "deployment_config", "num_replicas")
            yield Edit(path, self.replicas, "as many engines as are compared")


@dataclass(frozen=True, slots=True)
class Contender:
    """A rendered app under its name in the report."""

    name: str
    engines: int
    model_id: str
    rendered: Rendered
    interpreter: Path


def contenders(config: Path | None, replicas: int | None) -> list[Contender]:
    """The P/D app of a portable config as it runs here, and `replicas` ordinary ones of it where asked for.

    Raises UserError when the serving environment is missing, something is served here already, or the config is plain.
    """
    served = SessionFolder(STATE / "serving").session()
    if served is not None and served.alive:
        raise UserError(
            f"{served.model_id} is served here already and would take its share of the processor; "
            "end it first: kvrelay local stop"
        )
    interpreter = require_environment().interpreter
    model = tiny_model(interpreter, STATE / "models")
    app, rendered = rendered_here(config, model)
    app.engine(Role.DECODE)
    found = [Contender("pd", 2, app.model_id, rendered, interpreter)]
    if replicas is not None:
        plain = ordinary_replicas(app, replicas)
        many = render(plain, _ManyHere(Here(model), replicas))
        found.append(Contender("replicas", replicas, app.model_id, many, interpreter))
    return found


@contextmanager
def served_here(contender: Contender, say: Callable[[str], None]) -> Iterator[Endpoint]:
    """Serves one contender in a session of its own, and ends it with all that it started."""
    folder = SessionFolder(STATE / "bench" / "serving")
    try:
        session = control.begin(
            folder,
            contender.rendered.config,
            contender.model_id,
            contender.interpreter,
            _free_port(),
            _free_port(),
        )
        for progress in control.follow(folder, session):
            say(f"{contender.name}: {progress.phase.value}")
        yield session.endpoint
    finally:
        control.stop(folder)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
