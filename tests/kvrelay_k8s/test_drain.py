"""The script that runs before a worker's pod ends: a real process, with metrics from a server of the test's own."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve_app.examples import PROJECT

SCRIPT = PROJECT / "constructs" / "kvrelay_k8s" / "scripts" / "drain.py"
GAUGE = "ray_serve_replica_processing_queries"
TWO_REPLICAS = f'# TYPE {GAUGE} gauge\n{GAUGE}{{deployment="P"}} %s\n{GAUGE}{{deployment="D"}} 0.0\nother 7\n'


class Metrics:
    """Answers each request with the next of `bodies`, the last one for ever; what is not text is sent as it is."""

    def __init__(self) -> None:
        self.bodies: list[str | bytes] = []
        self.asked = 0
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while self.rfile.readline().strip():
                    pass
                body = outer.bodies[min(outer.asked, len(outer.bodies) - 1)]
                outer.asked += 1
                if isinstance(body, str):
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    body = (head + body).encode()
                self.wfile.write(body)

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/metrics"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    served = Metrics()
    yield served
    served.server.shutdown()
    served.server.server_close()


@pytest.fixture
def ray(tmp_path: Path) -> Path:
    """A command `ray` that notes what it was told."""
    command = tmp_path / "ray"
    command.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n')
    command.chmod(0o755)
    return command


def drain(url: str, folder: Path, *, seconds: int = 60) -> str:
    """What the script prints; it must end well."""
    done = subprocess.run(
        [sys.executable, SCRIPT, "--seconds", str(seconds), "--at-least", "0", "--metrics", url],
        env={"PATH": f"{folder}{os.pathsep}/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_ray_is_told_that_the_node_goes_and_by_when(metrics: Metrics, ray: Path) -> None:
    metrics.bodies = [TWO_REPLICAS % 0]
    assert drain(metrics.url, ray.parent) == "no request runs here\n"
    told = (ray.parent / "told").read_text()
    assert told.startswith("drain-node --reason DRAIN_NODE_REASON_PREEMPTION")
    assert told.endswith("--deadline-remaining-seconds 60\n")


def test_answers_under_way_are_waited_for(metrics: Metrics, ray: Path) -> None:
    metrics.bodies = [TWO_REPLICAS % 2.0, TWO_REPLICAS % 0]
    assert drain(metrics.url, ray.parent) == "no request runs here\n"
    assert metrics.asked == 2


def test_a_request_that_never_ends_holds_the_pod_for_the_time_given_only(metrics: Metrics, ray: Path) -> None:
    metrics.bodies = [TWO_REPLICAS % 1]
    assert drain(metrics.url, ray.parent, seconds=1) == "time is up\n"


@pytest.mark.parametrize(
    "body",
    [
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\ncut short",
        b"HTTP/1.1 503 Service Unavailable\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\xfe",
        b"",
    ],
    ids=["not-http", "cut", "503", "not-text", "hangs-up"],
)
def test_metrics_that_break_count_as_unknown_not_as_idle(metrics: Metrics, ray: Path, body: bytes) -> None:
    metrics.bodies = [body, TWO_REPLICAS % 0]
    assert drain(metrics.url, ray.parent) == "no request runs here\n"
    assert metrics.asked == 2


def test_without_ray_and_without_metrics_the_pod_still_ends(tmp_path: Path) -> None:
    printed = drain("http://127.0.0.1:1/metrics", tmp_path, seconds=1)
    assert printed.splitlines()[0].startswith("could not tell Ray: ")
    assert printed.splitlines()[1:] == ["time is up"]
