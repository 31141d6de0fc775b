"""kvrelay wait as a person runs it: against an account, in a process that Ctrl-C ends, with scripts in pods."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

import kvrelay
from kvrelay.cli import cli
from kvrelay.local.aws.eks.kubernetes_api import FakeKubernetes
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.cluster import Access, ClusterError, connect, find_access
from kvrelay.ops.cluster.access import iam_token
from kvrelay.ops.cluster.pod_scripts import ask_endpoint, tail_logs
from kvrelay.ops.preflight.aws import Aws

PROJECT = Path(kvrelay.__file__).parents[1]


def test_an_account_without_the_deployment_is_waited_for_and_then_told(
    account_here: EmulatedAws, tmp_path: Path
) -> None:
    result = CliRunner().invoke(cli, ["wait", "--timeout", "0", "--bundle", str(tmp_path)])

    assert result.exit_code == 1
    assert "no stack yet" in result.output
    assert "it waited for: network (no stack yet)" in result.output


def test_json_ends_with_the_outcome_and_nothing_else_is_written(
    account_here: EmulatedAws, tmp_path: Path
) -> None:
    result = CliRunner().invoke(
        cli, ["wait", "--timeout", "0", "--output", "json", "--bundle", str(tmp_path)]
    )

    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [set(line) for line in lines] == [
        {"phases", "unread"},
        {"outcome", "endpoint", "model", "bundle"},
    ]
    assert lines[-1]["outcome"] == "timed-out"


@pytest.mark.parametrize("output", ["text", "json"])
def test_ctrl_c_ends_it_at_once_with_130_and_no_traceback(account_here: EmulatedAws, output: str) -> None:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from kvrelay.cli import main; main()",
            "wait",
            "--every",
            "30",
            "--output",
            output,
        ],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stdout is not None
    assert process.stdout.readline()  # it has looked once, and sleeps

    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=30)

    assert process.returncode == 130
    assert time.monotonic() - sent < 10
    assert "Traceback" not in rest + errors
    assert errors.strip() == "interrupted"


# The way into the cluster


@pytest.fixture
def kubernetes(tmp_path: Path) -> Iterator[FakeKubernetes]:
    server = FakeKubernetes(tmp_path, "own-token")
    yield server
    server.stop()


def test_an_iam_identity_is_let_in_by_a_presigned_call(
    account_here: EmulatedAws, kubernetes: FakeKubernetes
) -> None:
    token = iam_token("us-east-2", "kvrelay")
    cluster = connect(Access(kubernetes.url, kubernetes.ca_pem, token=lambda: token))

    assert token.startswith("k8s-aws-v1.")
    assert "default" in {each["metadata"]["name"] for each in cluster.list("/api/v1/namespaces")}


def test_an_unknown_identity_is_told_how_to_get_in(kubernetes: FakeKubernetes) -> None:
    cluster = connect(Access(kubernetes.url, kubernetes.ca_pem, token=lambda: "k8s-aws-v1.bm8"))

    with pytest.raises(ClusterError, match=r"does not know your IAM identity; name it in cluster\.admins"):
        cluster.list("/api/v1/namespaces")


def test_a_cluster_out_of_reach_says_what_may_be_the_reason(kubernetes: FakeKubernetes) -> None:
    cluster = connect(Access("https://127.0.0.1:9", kubernetes.ca_pem, token=lambda: "x"))

    with pytest.raises(ClusterError, match=r"can't be reached: .*refused; its endpoint may be private"):
        cluster.list("/api/v1/namespaces")


def test_a_kubeconfig_is_taken_where_it_leads_to_this_very_cluster(
    account_here: EmulatedAws, kubernetes: FakeKubernetes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import base64

    authority = base64.b64encode(kubernetes.ca_pem.encode()).decode()
    described = {"name": "kvrelay", "status": "ACTIVE", "endpoint": kubernetes.url}
    described |= {"certificateAuthority": {"data": authority}}  # type: ignore[dict-item]
    account_here.account.answers.put("eks", "DescribeCluster", lambda given: {"cluster": described})

    def written(name: str, server: str) -> Path:
        cluster = {"server": server, "certificate-authority-data": authority}
        content = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "own-token"}}],
            "contexts": [{"name": name, "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / name).write_text(json.dumps(content))
        return tmp_path / name

    other, ours = written("other", "https://10.0.0.1"), written("ours", kubernetes.url)
    monkeypatch.setenv("KUBECONFIG", f"{other}:{ours}:{tmp_path / 'absent'}")

    access = find_access(Aws("us-east-2"), "kvrelay")

    assert (access.context, access.kubeconfig) == ("ours", str(ours))
    assert connect(access).list("/api/v1/namespaces")


# What runs in pods


class Model(BaseHTTPRequestHandler):
    """An OpenAI-compatible endpoint that answers as it is told to."""

    address = ""
    completion: tuple[int, object] = (200, {"choices": [{"text": "5"}]})

    def do_GET(self) -> None:
        self._answer(200, {"data": [{"id": "tiny"}]})

    def do_POST(self) -> None:
        self._answer(*self.completion)

    def _answer(self, code: int, body: object) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[type[Model]]:
    class Bound(Model):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    Bound.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Bound
    server.shutdown()
    server.server_close()


def asked(url: str, name: str) -> dict[str, object]:
    command = (sys.executable, *ask_endpoint(url, name)[1:])
    answer: dict[str, object] = json.loads(subprocess.check_output(command, text=True, timeout=60))
    return answer


def test_the_endpoint_is_asked_from_inside_for_a_token(model: type[Model]) -> None:
    assert asked(model.address, "tiny") == {"models": ["tiny"], "token": True, "error": ""}


def test_an_endpoint_that_fails_says_its_own_words(model: type[Model]) -> None:
    model.completion = (500, {"error": {"message": "EngineDeadError"}})

    found = asked(model.address, "tiny")

    assert found == {"models": ["tiny"], "token": False, "error": "HTTP 500: EngineDeadError"}


def test_an_endpoint_that_is_not_there_is_an_answer_too() -> None:
    found = asked("http://127.0.0.1:9", "tiny")

    assert found["models"] == []
    assert "refused" in str(found["error"])


def test_engines_last_lines_come_with_the_milestones_before_them(tmp_path: Path) -> None:
    lines = ["Loading weights took 144.90 seconds", *(f"step {index}" for index in range(500))]
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "replica_llm_Decode.log").write_text("\n".join(lines))
    (tmp_path / "worker-1.err").write_text("RuntimeError: no")
    (tmp_path / "gcs_server.out").write_text("not an engine's")

    command = (sys.executable, *tail_logs(3)[1:], str(tmp_path))
    shown = subprocess.check_output(command, text=True, timeout=60).splitlines()

    assert [line.partition(": ")[2] for line in shown if line.startswith("replica")] == [
        "Loading weights took 144.90 seconds",
        "step 497",
        "step 498",
        "step 499",
    ]
    assert "worker-1.err: RuntimeError: no" in shown
    assert not any("gcs_server" in line for line in shown)
