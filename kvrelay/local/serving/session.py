"""The serving session of a folder: what runs, since when, on which ports; kept in one small file."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from kvrelay.local.background import started_at
from kvrelay.ops.endpoint import ANNOUNCED, Endpoint

DEFAULT_ENDPOINT_PORT = 8000
DEFAULT_METRICS_PORT = 8080


class Phase(StrEnum):
    """How far a session is."""

    STARTING = "starting Ray"
    LOADING = "loading the engines"
    HANDSHAKE = "first request: prefill and decode shake hands"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(slots=True)
class Session:
    """One run of the app. `supervisor` is the process that owns all others; ids are as seen from outside."""

    id: str
    config: str
    model_id: str
    endpoint_port: int
    metrics_port: int
    isolated: bool
    supervisor: int = 0
    supervisor_started: int = 0
    temporary: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.endpoint_port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}/metrics"

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url, (self.metrics_url,))

    @property
    def alive(self) -> bool:
        return self.supervisor > 0 and started_at(self.supervisor) == self.supervisor_started


@dataclass(slots=True)
class Progress:
    """What the supervisor last said: the phase, a line about it, and each deployment's state."""

    phase: Phase
    detail: str = ""
    deployments: dict[str, str] | None = None


class SessionFolder:
    """The files of a session under `root`: session.json, progress.json, app.yaml and logs/."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.logs = root / "logs"
        self.config = root / "app.yaml"
        self._session = root / "session.json"
        self._progress = root / "progress.json"

    def session(self) -> Session | None:
        """The session that was last begun here and not ended."""
        try:
            return Session(**json.loads(self._session.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def save(self, session: Session) -> None:
        _replace(self._session, asdict(session))

    def progress(self) -> Progress | None:
        try:
            value = json.loads(self._progress.read_text())
            return Progress(Phase(value["phase"]), value["detail"], value["deployments"])
        except (OSError, ValueError, KeyError):
            return None

    def report(self, progress: Progress) -> None:
        _replace(self._progress, asdict(progress))

    def clear(self) -> None:
        """Forgets the session. Its logs stay until the next one begins."""
        for file in (self._session, self._progress, self.config, self.root.parent / ANNOUNCED.name):
            file.unlink(missing_ok=True)


def _replace(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(json.dumps(value))
    new.replace(path)
