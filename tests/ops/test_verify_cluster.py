"""kvrelay verify --target eks: each probe in its healthy and its broken cases, and whole runs on a fake cluster."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.cluster import ClusterError
from kvrelay.ops.proof import Verdict
from kvrelay.ops.verify import NotProvedError
from kvrelay.ops.verify_cluster import claims, probes, readings
from kvrelay.ops.verify_cluster.claims import Worker
from kvrelay.ops.verify_cluster.command import verify
from kvrelay.ops.verify_cluster.report import Figure, NotShown, Report
from tests.ops.fake_api_server import NAMESPACE, TOKEN_PREFIX, FakeApiServer

PROJECT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded_probes"
KNOWN_BYTES = 4 * 190_316_544
"""Four prompts of 4095 tokens on the reference deployment, by the plan; what the recorded watches are of."""


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


def worker(name: str, role: str, node: str, efa: int = 1) -> Worker:
    return Worker(name, role, node, "ray-worker", efa, True)


P, D = worker("p-0", "prefill", "node-a"), worker("d-0", "decode", "node-b")


# Each claim: what was read, whether it holds, a piece of what is said.
def _devices(name: str, efa: int = 1) -> Verdict:
    return claims.efa_allocated(
        [worker("p-0", "prefill", "a", efa)], {"p-0": readings.read_devices(recorded(name))}
    )


def _backends(name: str) -> Verdict:
    return claims.backend_is_libfabric({"d-0": readings.read_backends(recorded(name))})


def _libraries(name: str) -> Verdict:
    return claims.libfabric_holds_efa({"d-0": readings.read_libraries(recorded(name))})


def _bytes(decode: str, expected: int = KNOWN_BYTES) -> Verdict:
    into = readings.read_traffic(recorded(decode))
    mirrored = readings.Traffic(
        tuple(readings.Sample(each.seconds, each.sent, each.received) for each in into.samples)
    )
    return claims.bytes_over_efa(expected, [mirrored], [into])


def _speed(decode: str) -> Verdict:
    return claims.faster_than_tcp([readings.read_traffic(recorded(decode))], planned=3.125, tcp=0.625)


def _weights(name: str) -> Verdict:
    return claims.weights_were_cached("d-1", readings.read_weights(recorded(name)), 75.0)


CASES: dict[str, tuple[Verdict, bool, str]] = {
    "EFA device up": (_devices("devices-healthy"), True, "1 allocated to 1 workers, every port active"),
    "EFA port down": (_devices("devices-down"), False, "active: 0 (rdmap0s30 1: DOWN)"),
    "no EFA device": (_devices("devices-none"), False, "sees no /dev/infiniband/uverbs"),
    "EFA device not handed in": (_devices("devices-no-file"), False, "sees no /dev/infiniband/uverbs"),
    "EFA seen but not asked for": (_devices("devices-healthy", efa=0), False, "asks for no vpc.amazonaws.com/efa"),
    "four allocated, one up": (_devices("devices-healthy", efa=4), False, "4 allocated, active: 1"),
    "LIBFABRIC made": (_backends("backends-libfabric"), True, "LIBFABRIC in each of 1 workers"),
    "UCX by default": (_backends("backends-ucx"), False, "UCX was made, not LIBFABRIC"),
    "both made": (_backends("backends-both"), False, "beside LIBFABRIC also UCX"),
    "plugin missing": (_backends("backends-plugin-missing"), False, "unsupported backend 'LIBFABRIC'"),
    "no NIXL in the logs": (_backends("backends-nothing"), False, "Ray's logs name no NIXL backend"),
    "libfabric holds EFA": (_libraries("libraries-efa"), True, "VLLM::EngineCor 733 in d-0"),
    "libfabric without EFA": (_libraries("libraries-no-device"), False, "libfabric mapped, but no EFA device"),
    "UCX mapped only": (_libraries("libraries-ucx"), False, "no process has NIXL's LIBFABRIC plugin"),
    "nothing mapped": (_libraries("libraries-nothing"), False, "no process has NIXL's LIBFABRIC plugin"),
    "bytes over EFA": (_bytes("watch-decode-efa"), True, "761,266,176 bytes of cache expected"),
    "bytes another way": (_bytes("watch-decode-idle"), False, "decode received 0"),
    "far more than the cache": (_bytes("watch-decode-efa", KNOWN_BYTES // 4), False, "decode received 774"),
    "no counters": (_bytes("watch-none"), False, "2 of 2 workers see no EFA port's counters"),
    "EFA's speed": (_speed("watch-decode-efa"), True, "2.42 GB/s while it moved; the plan's 3.12"),
    "UCX emulated over EFA": (_speed("watch-decode-ucx-emulated"), False, "0.24 GB/s while it moved"),
    "nothing to time": (_speed("watch-decode-idle"), False, "too little moved"),
    "weights cached": (_weights("weights-cached"), True, "loaded in 1.9 s, nothing fetched; ready after 75 s"),
    "weights fetched": (_weights("weights-fetched"), False, "131.4 s of fetching"),
    "weights slow": (_weights("weights-slow"), False, "loaded in 144.9 s"),
    "weights unsaid": (_weights("weights-nothing"), False, "don't say how long"),
    "distinct nodes": (claims.on_distinct_nodes([P], [D]), True, "prefill on node-a; decode on node-b"),
    "one node": (
        claims.on_distinct_nodes([P], [worker("d-0", "decode", "node-a")]), False, "decode on node-a"
    ),
    "not scheduled": (
        claims.on_distinct_nodes([P], [worker("d-0", "decode", "")]), False, "decode on"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_probe_is_read_for_what_it_shows(name: str) -> None:
    verdict, held, saw = CASES[name]
    assert (verdict.held, saw in verdict.saw) == (held, True), verdict


def test_the_measured_rate_is_never_above_the_real_one_and_near_it() -> None:
    rate = readings.read_traffic(recorded("watch-decode-efa")).gb_per_s
    assert rate is not None
    assert 0.85 * 2.72 < rate <= 2.72


def test_a_watch_that_was_cut_off_is_one_line() -> None:
    with pytest.raises(ClusterError, match="not three numbers"):
        readings.read_traffic("0 1 2\nTraceback (most")


# The commands themselves, in this machine's shell, on trees like those of a pod.
def shell(command: tuple[str, ...], **places: Path) -> str:
    text = command[2]
    for path in places.values():
        place, _, moved_to = str(path).partition("=>")
        text = text.replace(place, moved_to)
    return subprocess.run([*command[:2], text], capture_output=True, text=True, check=True).stdout


def moved(root: Path, place: str) -> Path:
    return Path(f"{place}=>{root}{place}")


def test_the_devices_command_finds_ports_and_files(tmp_path: Path) -> None:
    port = tmp_path / "sys/class/infiniband/rdmap0s30/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text("4: ACTIVE\n")
    nodes = tmp_path / "dev/infiniband"
    nodes.mkdir(parents=True)
    (nodes / "uverbs0").touch()
    places = {"a": moved(tmp_path, "/sys/class/infiniband"), "b": moved(tmp_path, "/dev/infiniband")}

    assert shell(probes.DEVICES, **places) == recorded("devices-healthy")
    (nodes / "uverbs0").unlink()
    assert shell(probes.DEVICES, **places) == recorded("devices-no-file")


def test_the_backends_command_reads_the_workers_logs(tmp_path: Path) -> None:
    logs = tmp_path / "tmp/ray/session_latest/logs"
    logs.mkdir(parents=True)
    place = moved(tmp_path, "/tmp/ray/session_latest/logs")
    assert shell(probes.BACKENDS, a=place) == recorded("backends-nothing")

    said = "2026-12-02 14:59:42 NIXL INFO    _api.py:390 Backend LIBFABRIC was instantiated\n"
    (logs / "worker-0a1b-01000000-733.out").write_text(f"INFO something else\n{said}")
    (logs / "raylet.out").write_text(said)
    assert shell(probes.BACKENDS, a=place) == recorded("backends-libfabric")

    (logs / "worker-0a1b-01000000-733.out").write_text("")
    (logs / "worker-0a1b-01000000-733.err").write_text(
        "E1202 14:59:42.117514   31601 nixl_agent.cpp:322] createBackend: unsupported backend 'LIBFABRIC'\n"
        + "nixl_cu13._bindings.nixlNotFoundError: NIXL_ERR_NOT_FOUND\n" * 3
    )
    read = readings.read_backends(shell(probes.BACKENDS, a=place))
    assert read.instantiated == frozenset()
    assert "createBackend: unsupported backend 'LIBFABRIC'" in read.failed


def test_the_libraries_command_reads_every_process(tmp_path: Path) -> None:
    for line in recorded("libraries-efa").splitlines():
        pid, name, *paths = line.split()
        folder = tmp_path / "proc" / pid
        folder.mkdir(parents=True)
        (folder / "comm").write_text(f"{name}\n")
        (folder / "maps").write_text(
            "".join(
                f"7f00-7f01 r-xp 00000000 00:1a 42    {path}\n" * 2
                for path in ["/usr/lib64/libc.so.6", *paths]
            )
        )

    assert shell(probes.LIBRARIES, a=moved(tmp_path, "/proc")) == "".join(
        f"{line} \n" for line in recorded("libraries-efa").splitlines()
    )


def test_the_weights_command_reads_vllms_lines(tmp_path: Path) -> None:
    logs = tmp_path / "tmp/ray/session_latest/logs"
    logs.mkdir(parents=True)
    (logs / "worker-1-2-3.err").write_text(
        "(EngineCore pid=733) INFO 12-02 15:01:12 [default_loader.py:430] Loading weights took 1.94 seconds\n"
        "INFO 12-02 15:01:14 [gpu_model_runner.py:5348] Model loading took 16.71 GiB memory and 4.802713 seconds\n"
    )
    found = shell(probes.WEIGHTS, a=moved(tmp_path, "/tmp/ray/session_latest/logs"))
    assert found == recorded("weights-cached")


def test_the_watch_sees_every_port_and_what_moved(tmp_path: Path) -> None:
    ports = [tmp_path / f"rdmap{index}s30/ports/1/hw_counters" for index in range(2)]
    for port in ports:
        port.mkdir(parents=True)
        (port / "rx_bytes").write_text("1000\n")
        (port / "tx_bytes").write_text("10\n")
    once = subprocess.run(
        [sys.executable, *probes.watch_ports(0)[1:], str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[1:] for line in once.stdout.splitlines()] == [["2000", "20"]]

    process = subprocess.Popen(
        [sys.executable, *probes.watch_ports(1)[1:], str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    (ports[1] / "rx_bytes").write_text("9001000\n")
    output, _ = process.communicate(timeout=30)
    traffic = readings.read_traffic(first + output)
    assert (traffic.received, traffic.sent) == (9_000_000, 0)
    assert traffic.samples[-1].seconds >= 1


def test_the_watch_prints_nothing_without_a_port(tmp_path: Path) -> None:
    command = [sys.executable, *probes.watch_ports(0)[1:], str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""


def test_a_report_says_what_was_not_shown_and_keeps_both_forms(tmp_path: Path) -> None:
    report = Report(
        "kvrelay",
        "us-east-2",
        datetime(2026, 12, 2, 15, 4, 5, tzinfo=UTC),
        [Figure("image", "ray:a|b")],
        [Verdict("one", True, "all"), Verdict("two", False, "none")],
        [NotShown("three", "because"), NotShown("four", "denied", blocked=True)],
    )
    markdown, as_json = report.keep(tmp_path)

    assert markdown.name == "verify-kvrelay-2026-12-02T150405Z.md"
    text = markdown.read_text()
    assert "Not proved: two; four." in text
    assert "| image | ray:a\\|b |" in text
    assert "| two | **fails** | none |" in text
    assert "- three: because." in text
    found = json.loads(as_json.read_text())
    assert set(found) == {"deployment", "region", "at", "proved", "figures", "claims", "not_shown"}
    assert found["proved"] is False


def dense_bytes(tokens: int) -> int:
    """Qwen3-8B's cache of a prompt, in blocks of 64."""
    return -(-tokens // 64) * 64 * 147_456


def hybrid_bytes(tokens: int) -> int:
    """Qwen3.5-9B's: blocks of 528 for all tokens but the last, and 24 layers' states, as an H200 moved them."""
    return -(-(tokens - 1) // 528) * 528 * 32_768 + 24 * 2_146_304


# A whole run. What answers is a stand-in for the two engines: it counts as they would.
class Engines:
    """Serves completions and both workers' metrics; `over` is what carries the cache."""

    def __init__(self, size_of: Callable[[int], int] = dense_bytes) -> None:
        self.size_of = size_of
        self.over = "efa"
        self.tokens = self.recomputed = self.transfers = 0
        self.sizes: list[int] = []
        self.received = 0
        engines = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._reply(engines.page().encode())

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                engines.take(len(asked["prompt"]), engines.size_of(len(asked["prompt"])))
                count = asked["max_tokens"]
                logprobs = {
                    "tokens": ["a"] * count,
                    "token_logprobs": [-0.1] * count,
                    "top_logprobs": [{"a": -0.1, "b": -3.0}] * count,
                }
                self._reply(json.dumps({"choices": [{"logprobs": logprobs}]}).encode())

            def _reply(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def take(self, tokens: int, size: int) -> None:
        with self._lock:
            if self.over == "nothing":
                self.recomputed += tokens
                return
            self.tokens += tokens
            self.transfers += 1
            self.sizes.append(size)
            self.received += size if self.over == "efa" else 0

    def page(self) -> str:
        bounds = [10.0**power for power in range(4, 12)]
        lines = [
            'ray_serve_replica_up{deployment="Decode:qwen3-8b",replica="d1"} 1',
            f'ray_vllm_prompt_tokens_by_source_total{{ReplicaId="d1",source="external_kv_transfer"}} {self.tokens}',
            f'ray_vllm_prompt_tokens_by_source_total{{ReplicaId="d1",source="local_compute"}} {self.recomputed}',
            f'ray_vllm_nixl_bytes_transferred_count{{ReplicaId="d1"}} {self.transfers}',
        ]
        for bound in bounds:
            below = sum(size <= bound for size in self.sizes)
            lines.append(f'ray_vllm_nixl_bytes_transferred_bucket{{ReplicaId="d1",le="{bound}"}} {below}')
        return "\n".join(lines) + "\n"


def _pod(name: str, role: str, node: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"ray.io/group": role, "ray.io/node-type": "worker"}},
        "spec": {
            "nodeName": node,
            "containers": [
                {
                    "name": "ray-worker",
                    "resources": {"limits": {"vpc.amazonaws.com/efa": "1", "nvidia.com/gpu": "1"}},
                }
            ],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


class World:
    """A healthy cluster until a test spoils something."""

    def __init__(self, aws: EmulatedAws, api: FakeApiServer, engines: Engines, folder: Path) -> None:
        self.aws, self.api, self.engines, self.folder = aws, api, engines, folder
        self.prefill = Engines()  # it has a metrics page of its own, and no transfer on it
        self.outputs: dict[tuple[str, ...], str] = {
            probes.DEVICES: recorded("devices-healthy"),
            probes.BACKENDS: recorded("backends-libfabric"),
            probes.LIBRARIES: recorded("libraries-efa"),
            probes.WEIGHTS: recorded("weights-cached"),
        }
        self.denied: set[tuple[str, ...]] = set()
        self.file = folder / "deployment.yaml"
        self.file.write_text(
            f"name: kvrelay\nserving: {{serve_config: {PROJECT / 'serve_configs/qwen3-8b.yaml'}}}\n"
        )
        api.executed = self._executed
        api.objects["/version"] = {"gitVersion": "v1.36.2-eks-1"}
        self.workers(("p-0", "prefill", "node-a"), ("d-0", "decode", "node-b"))
        api.ready.discard("p-0")
        cluster = {
            "name": "kvrelay",
            "status": "ACTIVE",
            "endpoint": api.url,
            "certificateAuthority": {"data": base64.b64encode(api.ca_pem.encode()).decode()},
        }
        aws.account.answers.put("eks", "DescribeCluster", lambda given: {"cluster": cluster})

    def workers(self, *pods: tuple[str, str, str]) -> None:
        for name, role, _ in pods:
            engines = self.prefill if role == "prefill" else self.engines
            self.api.add(name, engines.server.server_port)
        items = [_pod(*each) for each in pods]
        self.api.objects[f"/api/v1/namespaces/{NAMESPACE}/pods"] = {"items": items}

    def _executed(self, pod: str, command: list[str]) -> tuple[int, str]:
        if command[0] == "python3":
            if command[3] != "0":
                return 0, recorded("watch-decode-efa")
            moved = self.engines.received
            return 0, f"5 {moved} 1000\n" if pod.startswith("d-") else f"5 1000 {moved}\n"
        if tuple(command) in self.denied:
            return 126, ""
        return 0, self.outputs[tuple(command)]

    def run(self, *arguments: str, **more: Any) -> Result:
        given = ["--target", "eks", "--deployment", str(self.file), "--report", str(self.folder / "reports")]
        return CliRunner().invoke(verify, [*given, *arguments], **more)

    def found(self, *arguments: str) -> tuple[dict[str, Any], dict[str, str]]:
        """The report, and the claims that do not hold with what was seen."""
        result = self.run("--output", "json", *arguments)
        report = json.loads(result.stdout)
        return report, {each["claim"]: each["saw"] for each in report["claims"] if not each["held"]}


@pytest.fixture
def world(account_here: EmulatedAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("kvrelay.ops.verify_cluster.proving._LEAD_S", 0.0)
    monkeypatch.setattr("kvrelay.ops.verify_cluster.proving._LOOK_S", 0.1)
    # The stand-in's metrics are never late.
    monkeypatch.setattr("kvrelay.ops.verify._REPORT_SECONDS", 0.1, raising=False)
    api, engines = FakeApiServer(tmp_path), Engines()
    made = World(account_here, api, engines, tmp_path)
    yield made
    for each in (engines, made.prefill):
        each.server.shutdown()
        each.server.server_close()
    api.stop()


def test_a_healthy_cluster_proves_all_that_can_be_tried(world: World) -> None:
    result = world.run()

    assert result.exit_code == 0, result.output
    assert (
        "holds  prefill and decode run on distinct nodes: prefill on node-a; decode on node-b"
        in result.output
    )
    assert "holds  the KV cache went over EFA" in result.output
    assert "FAILS" not in result.output
    assert (
        "not shown  answers equal one ordinary engine's: no ordinary engine of this model is at hand"
        in result.output
    )
    assert "not shown  a restarted worker finds its weights in the cache" in result.output
    kept = sorted(path.suffix for path in (world.folder / "reports").iterdir())
    assert kept == [".json", ".md"]
    everything = result.output + "".join(path.read_text() for path in (world.folder / "reports").iterdir())
    assert TOKEN_PREFIX not in everything
    assert world.aws.environment()["AWS_SECRET_ACCESS_KEY"] not in everything


def test_a_hybrid_models_states_are_expected_as_they_travel(world: World) -> None:
    world.file.write_text(
        f"name: kvrelay\nserving: {{serve_config: {PROJECT / 'serve_configs/qwen3.5-9b.yaml'}}}\n"
    )
    world.engines.size_of = hybrid_bytes
    report, failed = world.found()

    assert failed == {}
    claims = {each["claim"]: each["saw"] for each in report["claims"]}
    lengths = [*(block * 528 + step for block in (1, 2, 3, 7) for step in (-1, 0, 1)), 2, 5, 2040, 4080]
    assert (
        f"{sum(map(hybrid_bytes, lengths)):,} bytes expected"
        in claims["bytes moved match prompts x bytes a token"]
    )


def test_a_cache_that_goes_over_tcp_is_found_out(world: World) -> None:
    world.engines.over = "tcp"
    world.outputs[probes.BACKENDS] = recorded("backends-ucx")
    report, failed = world.found()

    assert set(failed) == {"NIXL's backend is LIBFABRIC", "the KV cache went over EFA"}
    assert "decode received 0" in failed["the KV cache went over EFA"]
    assert report["proved"] is False


def test_a_decode_that_recomputes_is_found_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvrelay.ops.verify._METRICS_SECONDS", 0.1)
    world.engines.over = "nothing"
    _, failed = world.found()

    assert "decode recomputed nothing" in failed


def test_a_probe_that_may_not_run_hides_no_other_and_proves_nothing(world: World) -> None:
    world.denied.add(probes.LIBRARIES)
    result = world.run()

    assert isinstance(result.exception, NotProvedError)
    assert result.exception.exit_code == 1
    assert "COULD NOT  libfabric is loaded and holds an EFA device" in result.output
    assert "holds  the KV cache went over EFA" in result.output


@pytest.fixture
def ordinary() -> Iterator[str]:
    """The URL of an ordinary engine of the same model."""
    other = Engines()
    other.page = lambda: json.dumps({"data": [{"id": "served"}]})  # type: ignore[method-assign]
    yield f"http://127.0.0.1:{other.server.server_port}"
    other.server.shutdown()
    other.server.server_close()


def test_a_reference_engine_is_compared_with(world: World, ordinary: str) -> None:
    report, failed = world.found("--reference-url", ordinary)

    assert failed == {}
    assert "answers equal one ordinary engine's" in [each["claim"] for each in report["claims"]]


def test_what_is_not_asked_of_a_hybrid_model_is_said_where_answers_are_compared(
    world: World, ordinary: str
) -> None:
    world.file.write_text(
        f"name: kvrelay\nserving: {{serve_config: {PROJECT / 'serve_configs/qwen3.5-9b.yaml'}}}\n"
    )
    world.engines.size_of = hybrid_bytes
    report, failed = world.found("--reference-url", ordinary)

    assert failed == {}
    claims = {each["claim"]: each["saw"] for each in report["claims"]}
    assert "for prompts of 2 to 4080 tokens" in claims["answers equal one ordinary engine's"]
    assert report["not_shown"][0]["why"].startswith("prompts of one token")


def test_a_restarted_worker_is_waited_for_and_its_weights_timed(world: World) -> None:
    assert world.run("--restart", input="n\n").exit_code == 1
    assert world.api.deleted == []

    threading.Thread(target=_succeed, args=(world,), daemon=True).start()
    report, failed = world.found("--restart", "--yes")

    assert world.api.deleted == ["d-0"]
    assert failed == {}
    last = report["claims"][-1]
    assert last["claim"] == "a restarted worker finds its weights in the cache"
    assert "d-1: weights loaded in 1.9 s, nothing fetched" in last["saw"]


def _succeed(world: World) -> None:
    while not world.api.deleted:
        time.sleep(0.05)
    world.workers(("p-0", "prefill", "node-a"), ("d-1", "decode", "node-b"))


def test_without_workers_there_is_nothing_to_prove(world: World) -> None:
    world.workers()
    assert "0 prefill and 0 decode workers in inference" in str(world.run().exception)


def test_an_app_that_is_not_apart_is_refused_in_a_line(world: World) -> None:
    plain = PROJECT / "serve_configs/qwen3.5-9b-plain.yaml"
    world.file.write_text(f"name: kvrelay\nserving: {{serve_config: {plain}}}\n")
    assert "there is no hand-over to prove" in str(world.run().exception)


@pytest.mark.parametrize("held", [True, False])
def test_the_local_target_is_proved_by_the_same_core(monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    monkeypatch.setattr("kvrelay.local.serving.proof_target.local_target", lambda: "what is served here")
    proved: list[object] = []

    def prove(target: object, say: object) -> list[Verdict]:
        proved.append(target)
        return [Verdict("all", held, "well")]

    monkeypatch.setattr("kvrelay.ops.verify.prove", prove)
    text, as_json = (CliRunner().invoke(verify, arguments) for arguments in ([], ["--output", "json"]))

    assert proved == ["what is served here"] * 2
    assert f"{'holds' if held else 'FAILS'}  all: well" in text.output
    expected = {"proved": held, "claims": [{"claim": "all", "held": held, "saw": "well"}]}
    assert json.loads(as_json.output) == expected
    assert (text.exit_code == 0, as_json.exit_code == 0) == (held, held)
    assert held or "not proved: all" in str(text.exception)


def test_a_folder_that_takes_no_report_is_said_before_the_proof(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = world.run("--report", str(tmp_path / "file" / "reports"))
    assert "--report: " in str(result.exception)
    assert "name another folder" in str(result.exception)
    assert world.api.opened == 0


def test_json_cannot_ask(world: World) -> None:
    assert "add --yes" in str(world.run("--restart", "--output", "json").exception)


def test_help_teaches_exit_codes() -> None:
    assert "Exit codes: 0 every claim" in CliRunner().invoke(verify, ["--help"]).output


def test_ctrl_c_ends_it_without_a_traceback(world: World) -> None:
    waiting = threading.Event()

    def hang(pod: str, command: list[str]) -> tuple[int, str]:
        waiting.set()
        return 0, "x" * 10  # the program below never comes to read it

    world.api.executed = hang
    program = (
        "import time\nfrom kvrelay.ops.verify_cluster import readings\n"
        "readings.read_devices = lambda output: time.sleep(60)\nfrom kvrelay.cli import main\nmain()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "verify", "--target", "eks", "--deployment", str(world.file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        cwd=PROJECT,
    )
    assert waiting.wait(60)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors.strip()) == (130, "interrupted")
