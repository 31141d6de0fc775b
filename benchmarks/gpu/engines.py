"""vLLM engines and the relay between them as programs of this machine, without Ray: started, awaited, read, ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

MODEL_ID = "random"


class EngineError(Exception):
    """An engine did not come up, or ended; the text is its own last word."""


@dataclass(frozen=True, slots=True)
class Place:
    """What engines run on: `gpu` (one or more CUDA devices) or `cpu`, for trying the scripts."""

    device: str
    work: Path

    @property
    def gpu(self) -> bool:
        return self.device == "cuda"

    @property
    def environment(self) -> dict[str, str]:
        """What every engine's environment holds here."""
        common = {
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            "PYTHONUNBUFFERED": "1",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_HOST_IP": "127.0.0.1",
            # A prefill keeps what nobody fetched for so many seconds.
            "VLLM_NIXL_ABORT_REQUEST_TIMEOUT": "120",
        }
        # FlashInfer's sampler is no part of what is packed, and greedy answers need none.
        gpu = {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
        cpu = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
        return common | (gpu if self.gpu else cpu)

    def arguments(self, pool_bytes: int | None = None) -> dict[str, Any]:
        """What every engine's arguments hold here: several share a device, so the pool is given in bytes."""
        if not self.gpu:
            return {"dtype": "float32", "enforce_eager": True}
        share = {"gpu_memory_utilization": 0.05, "kv_cache_memory_bytes": pool_bytes or 8_000_000_000}
        return {"dtype": "bfloat16", **share}


def transfer(role: str, **extra: Any) -> dict[str, Any]:
    """A kv_transfer_config of NIXL over UCX. `role` is kv_producer or kv_consumer."""
    settings = {"backends": ["UCX"]}
    return {"kv_connector": "NixlConnector", "kv_role": role, "kv_connector_extra_config": settings, **extra}


@dataclass(slots=True)
class Program:
    """A server of this machine. Use it as a context manager, or call `end`."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    log: Path
    process: subprocess.Popen[bytes] | None = None
    began: float = field(default_factory=time.monotonic)
    ready_after: float | None = None
    again: bool = False
    """Whether it had to be started a second time, for a port that another had taken."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command, env=dict(self.environment), stdout=out, stderr=out, stdin=subprocess.DEVNULL
            )
        return self

    def wait(self, deadline: float) -> Self:
        """Returns when it answers /health. Raises EngineError with its own words, or when `deadline` has passed."""
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{self.url}/health", timeout=5, trust_env=False).status_code == 200:
                    self.ready_after = time.monotonic() - self.began
                    return self
            if self.process is None or self.process.poll() is not None:
                said = last_error(self.log)
                if "address already in use" not in said.lower() or self.again:
                    raise EngineError(f"{self.name} ended: {said}")
                # vLLM looks for a free port and takes it later: of many that start at once, two may choose one.
                self.again = True
                self.start()
            if time.monotonic() > deadline:
                raise EngineError(f"{self.name} is not ready in time; it said: {last_error(self.log)}")
            time.sleep(0.5)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(15)

    def metrics(self) -> str:
        return httpx.get(f"{self.url}/metrics", timeout=30, trust_env=False).text


def engine(
    place: Place,
    name: str,
    model: Path,
    port: int,
    arguments: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    handshake_port: int | None = None,
    gpu: int = 0,
) -> Program:
    """One vLLM server on one GPU, not yet started. `arguments` are engine_kwargs; see `flags`."""
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", MODEL_ID, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--disable-uvicorn-access-log", *flags(arguments)]
    variables = os.environ | place.environment | dict(environment or {})
    if place.gpu:
        variables["CUDA_VISIBLE_DEVICES"] = str(gpu)
    if handshake_port is not None:
        variables["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(handshake_port)
    return Program(name, command, variables, port, place.work / "logs" / f"{name}.log")


def relay(place: Place, name: str, port: int, prefill: str, decode: str, *options: str) -> Program:
    """The relay that hands each prompt to `prefill` and then to `decode`, not yet started."""
    command = [sys.executable, "-m", "benchmarks.gpu.relay", str(port), prefill, decode, *options]
    return Program(name, command, os.environ, port, place.work / "logs" / f"{name}.log")


def flags(arguments: Mapping[str, Any]) -> list[str]:
    """engine_kwargs as vLLM's command line takes them; None leaves one out."""
    found: list[str] = []
    for key, value in arguments.items():
        flag = key.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            found.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, dict | list):
            found += [f"--{flag}", json.dumps(value)]
        else:
            found += [f"--{flag}", str(value)]
    return found


@contextlib.contextmanager
def running(programs: Sequence[Program], seconds: float, together: bool = True) -> Iterator[None]:
    """All programs, started at once or in turn, and ready; ended when the block ends. Raises EngineError."""
    deadline = time.monotonic() + seconds
    try:
        for program in programs:
            program.start()
            if not together:
                program.wait(deadline)
        for program in programs:
            program.wait(deadline)
        yield
    finally:
        for program in programs:
            if program.alive and program.process is not None:
                program.process.send_signal(signal.SIGTERM)
        for program in programs:
            program.end()


def last_error(log: Path) -> str:
    """The last line of a log that names an error, or its last line."""
    try:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    except OSError:
        return "nothing"
    named = [line for line in lines if "Error" in line and "EngineCore" not in line.split("Error")[-1]]
    causes = [line for line in named if "See root cause" not in line and "initialization failed" not in line]
    return (causes or named or lines or ["nothing"])[-1][-500:]
