"""kvrelay endpoint: a port-forward that finds a ready pod, and another one when it goes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from kvrelay.errors import UserError
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.chat import chat
from kvrelay.ops.cluster import ClusterError, connect
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.endpoint.api_server import api_server
from kvrelay.ops.endpoint.backends import Backend, OnePod, ServicePods
from kvrelay.ops.endpoint.command import endpoint
from kvrelay.ops.endpoint.forward import Forward, forwarded
from tests.ops.fake_api_server import NAMESPACE, SERVICE, TOKEN_PREFIX, FakeApiServer


class Pod:
    """A server that says its name: whole, or in a stream that lasts until `go_on` is set."""

    def __init__(self, name: str) -> None:
        self.name, self.go_on, self.hung_up = name, threading.Event(), threading.Event()
        self.requests = 0
        pod = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.dumps({"data": [{"id": "qwen"}], "pod": pod.name}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                pod.requests += 1
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self._event({"choices": [{"delta": {"content": f"{pod.name} got {len(sent)}"}}]})
                try:
                    while not pod.go_on.wait(0.05):
                        self._event({"choices": []})
                except OSError:
                    pod.hung_up.set()
                    return
                self._chunk(b"data: [DONE]\n\n")
                self._chunk(b"")

            def _event(self, value: Any) -> None:
                self._chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

            def _chunk(self, data: bytes) -> None:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def port(self) -> int:
        return self.server.server_port

    def stop(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def pods() -> Iterator[tuple[Pod, Pod]]:
    both = Pod("pod-a"), Pod("pod-b")
    yield both
    for pod in both:
        pod.stop()


@pytest.fixture(params=["v4.channel.k8s.io", "v5.channel.k8s.io"])
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FakeApiServer]:
    server = FakeApiServer(tmp_path, (request.param,))
    yield server
    server.stop()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def forward(api: FakeApiServer, said: list[str]) -> Iterator[Forward]:
    access = api.access()
    backends = ServicePods(connect(access), NAMESPACE, SERVICE)
    made = Forward(api_server(access), backends, say=said.append, patience=3)
    with forwarded(made):
        yield made


def pod_of(forward: Forward) -> str:
    return str(httpx.get(f"{forward.url}/v1/models", trust_env=False).json()["pod"])


def eventually(holds: Callable[[], bool], seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    return holds()


def test_requests_reach_the_ready_pod_only(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward, said: list[str]
) -> None:
    api.add("pod-a", pods[0].port)
    api.add("pod-b", pods[1].port)
    api.ready.discard("pod-a")

    assert [pod_of(forward) for _ in range(3)] == ["pod-b"] * 3
    assert said[-1] == "forwarding to inference/pod-b:8000"


def test_many_connections_at_once_each_get_their_own_answer(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    api.add("pod-a", pods[0].port)
    pods[0].go_on.set()

    async def ask() -> list[str]:
        async with Endpoint(forward.url).client() as client:

            async def one(index: int) -> str:
                answer = await client.post("/x", content=b"x" * (index + 1))
                return answer.text.split('"')[7]

            return await asyncio.gather(*map(one, range(100)))

    assert asyncio.run(ask()) == [f"pod-a got {index + 1}" for index in range(100)]


def test_a_large_request_arrives_whole(api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward) -> None:
    api.add("pod-a", pods[0].port)
    pods[0].go_on.set()

    answer = httpx.post(f"{forward.url}/x", content=b"x" * 5_000_000, trust_env=False, timeout=30)

    assert "pod-a got 5000000" in answer.text


def test_a_pod_that_dies_midway_cuts_its_stream_and_the_next_request_reaches_another(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward, said: list[str]
) -> None:
    api.add("pod-a", pods[0].port)
    with httpx.stream("POST", f"{forward.url}/x", content=b"x", trust_env=False) as answer:
        lines = answer.iter_lines()
        assert "pod-a" in next(lines)
        api.kill("pod-a")
        api.add("pod-b", pods[1].port)
        with pytest.raises(httpx.HTTPError):
            list(lines)

    assert pod_of(forward) == "pod-b"
    assert said[-1] == "forwarding to inference/pod-b:8000"


def test_a_pod_that_ends_finishes_what_it_began(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    api.add("pod-a", pods[0].port)
    with httpx.stream("POST", f"{forward.url}/x", content=b"x", trust_env=False) as answer:
        lines = answer.iter_lines()
        next(lines)
        api.ready.discard("pod-a")
        api.add("pod-b", pods[1].port)
        assert eventually(lambda: pod_of(forward) == "pod-b")
        pods[0].go_on.set()
        assert "data: [DONE]" in list(lines)


def test_a_request_that_a_pod_refused_goes_to_the_next_one(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    closed = Pod("closed")
    closed.stop()
    api.add("pod-0", closed.port)
    api.add("pod-b", pods[1].port)
    pods[1].go_on.set()

    answer = httpx.post(f"{forward.url}/x", content=b"12345", trust_env=False)

    assert "pod-b got 5" in answer.text
    assert pods[1].requests == 1


def test_a_client_that_hangs_up_is_hung_up_on_the_pod(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    api.add("pod-a", pods[0].port)
    with httpx.stream("POST", f"{forward.url}/x", content=b"x", trust_env=False) as answer:
        next(answer.iter_lines())

    assert pods[0].hung_up.wait(10)


def test_without_a_ready_pod_a_request_is_told_why(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward, said: list[str]
) -> None:
    api.service_there = False
    answer = httpx.get(f"{forward.url}/v1/models", trust_env=False)
    assert answer.status_code == 503
    assert answer.json()["error"]["message"].startswith("there is no Service inference/ray-llm-serve-svc yet")

    api.service_there = True
    api.add("pod-a", pods[0].port)
    api.ready.clear()
    answer = httpx.get(f"{forward.url}/v1/models", trust_env=False)
    assert answer.json()["error"]["message"] == said[-1]
    assert said[-1].startswith("none of the 1 pods behind inference/ray-llm-serve-svc is ready")


def test_a_request_waits_for_a_pod_that_comes_soon(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    threading.Timer(1.0, lambda: api.add("pod-a", pods[0].port)).start()

    assert pod_of(forward) == "pod-a"


def test_rights_that_are_missing_are_said_at_once(
    api: FakeApiServer, pods: tuple[Pod, Pod], forward: Forward
) -> None:
    api.add("pod-a", pods[0].port)
    api.refuses = 403
    began = time.monotonic()

    answer = httpx.get(f"{forward.url}/v1/models", trust_env=False)

    assert "not allowed to your IAM identity" in answer.json()["error"]["message"]
    assert time.monotonic() - began < 2


def test_a_pod_can_be_reached_by_name_though_no_service_has_it(
    api: FakeApiServer, pods: tuple[Pod, Pod]
) -> None:
    api.pods["pod-a"] = pods[0].port
    access = api.access()
    made = Forward(api_server(access), OnePod(connect(access), Backend(NAMESPACE, "pod-a", 8080)))
    with forwarded(made):
        assert pod_of(made) == "pod-a"


def test_a_taken_port_is_one_line(api: FakeApiServer, pods: tuple[Pod, Pod]) -> None:
    access = api.access()
    made = Forward(api_server(access), ServicePods(connect(access), NAMESPACE, SERVICE), port=pods[0].port)
    with pytest.raises(UserError, match=f"port {pods[0].port} is taken"), forwarded(made):
        pass


@pytest.fixture
def deployed(account_here: EmulatedAws, api: FakeApiServer, tmp_path: Path) -> Path:
    """A deployment file whose EKS cluster is the fake API server."""
    cluster = {
        "name": "kvrelay",
        "status": "ACTIVE",
        "endpoint": api.url,
        "certificateAuthority": {"data": base64.b64encode(api.ca_pem.encode()).decode()},
    }
    account_here.account.answers.put("eks", "DescribeCluster", lambda given: {"cluster": cluster})
    path = tmp_path / "deployment.yaml"
    path.write_text("name: kvrelay\n")
    return path


def test_chat_goes_through_a_forward_of_its_own(
    deployed: Path, api: FakeApiServer, pods: tuple[Pod, Pod]
) -> None:
    api.add("pod-a", pods[0].port)
    pods[0].go_on.set()

    result = CliRunner().invoke(chat, ["Hello", "--deployment", str(deployed)])

    assert result.exit_code == 0, result.output
    assert "pod-a got" in result.output
    assert TOKEN_PREFIX not in result.output


def test_chat_without_a_pod_says_why(
    deployed: Path, api: FakeApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvrelay.ops.endpoint.forward.PATIENCE_S", 1.0)
    result = CliRunner().invoke(chat, ["Hello", "--deployment", str(deployed)])

    assert "no pod is behind inference/ray-llm-serve-svc yet" in str(result.exception) + result.output


def test_an_identity_that_the_cluster_does_not_know_is_one_line(deployed: Path, api: FakeApiServer) -> None:
    api.knows_us = False
    result = CliRunner().invoke(endpoint, ["--deployment", str(deployed), "--port", "0"])

    assert isinstance(result.exception, ClusterError)
    assert "does not know your IAM identity" in str(result.exception)


def test_help_teaches_exit_codes() -> None:
    assert "Exit codes: 1 the cluster can't be reached" in CliRunner().invoke(endpoint, ["--help"]).output


def test_ctrl_c_ends_it_without_a_traceback_and_takes_the_announcement_back(
    deployed: Path, tmp_path: Path
) -> None:
    announced = tmp_path / "endpoint.json"
    program = (
        "from pathlib import Path\nfrom kvrelay.cli import main\nfrom kvrelay.ops.endpoint import Endpoint\n"
        f"Endpoint.announce.__defaults__ = Endpoint.withdraw.__defaults__ = (Path({str(announced)!r}),)\n"
        "main()"
    )
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            program,
            "endpoint",
            "--deployment",
            str(deployed),
            "--port",
            "0",
            "--output",
            "json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert lines[0]["event"].startswith("no pod is behind")
    assert lines[1]["url"].startswith("http://127.0.0.1:")
    assert eventually(announced.exists)

    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)

    assert (process.returncode, errors.strip()) == (130, "interrupted"), output
    assert not announced.exists()
