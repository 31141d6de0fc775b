"""One emulated account for the tests of a module, with its answers and the environment put back after each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.preflight.running import CHECKS


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are for networks that hang; a busy machine of a test may take longer."""
    for check in CHECKS:
        monkeypatch.setattr(check, "limit_s", check.limit_s * 10)


@pytest.fixture(scope="module")
def emulated() -> Iterator[EmulatedAws]:
    with EmulatedAws() as account:
        yield account


@pytest.fixture
def account_here(emulated: EmulatedAws, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAws]:
    for name, value in emulated.environment().items():
        monkeypatch.setenv(name, value)
    yield emulated
    emulated.account.answers.clear()


class Web:
    """A web server on loopback that answers each path with a status, 200 by default."""

    def __init__(self) -> None:
        self.statuses: dict[str, int] = {}
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                found = next((s for part, s in web.statuses.items() if part in self.path), 200)
                self.send_response(found)
                self.end_headers()

            def do_GET(self) -> None:
                self.do_HEAD()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def web() -> Iterator[Web]:
    server = Web()
    yield server
    server.server.shutdown()
    server.server.server_close()
