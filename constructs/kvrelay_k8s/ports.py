"""The ports that Ray, vLLM and NIXL take in a worker's pod: a serve config may move some onto others."""

from __future__ import annotations

from collections.abc import Iterator

from kvrelay.serve_app import Engine, Rendered, ServeApp
from kvrelay.settings.faults import fault_line
from kvrelay.yaml_source import YamlPath
from kvrelay_k8s.names import AGENT_PORT, CLIENT_PORT, DASHBOARD_PORT, GCS_PORT, METRICS_PORT

RAY_PORTS = {
    "Ray's control store": range(GCS_PORT, GCS_PORT + 1),
    "Ray's metrics": range(METRICS_PORT, METRICS_PORT + 1),
    "Ray's dashboard": range(DASHBOARD_PORT, DASHBOARD_PORT + 1),
    "Ray's client server": range(CLIENT_PORT, CLIENT_PORT + 1),
    # The default of `ray start`: https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations
    "Ray's worker processes": range(10002, 20000),
    "Ray's dashboard agent": range(AGENT_PORT, AGENT_PORT + 1),
}
# vLLM keeps this many ports from VLLM_DP_MASTER_PORT upwards for its process groups.
_MASTER_PORTS = 10
_MASTER_PORT: YamlPath = ("runtime_env", "env_vars", "VLLM_DP_MASTER_PORT")
_SIDE_CHANNEL: YamlPath = ("experimental_configs", "NIXL_SIDE_CHANNEL_PORT_BASE")


def port_faults(app: ServeApp, rendered: Rendered) -> Iterator[str]:
    """A line for each port of the rendered config that something else in its pod takes too."""
    serve = {"Serve's endpoint": range(app.http.port, app.http.port + 1)}
    if taken := _taken(app.http.port, app.http.port + 1, RAY_PORTS):
        yield fault_line(app.document, ("http_options", "port"), app.http.port, _told(taken, "8000"))
    for engine in app.engines:
        master = _master_ports(engine, rendered)
        if master and (taken := _taken(master.start, master.stop, RAY_PORTS | serve)):
            yield engine.fault(_MASTER_PORT, master.start, _told(taken, "29400"))
        if engine.kv_transfer is None:
            continue
        base = engine.side_channel_port_base
        end = base + int(engine.replicas.most) * engine.gpus_per_replica
        others = RAY_PORTS | serve | ({"vLLM's process groups": master} if master else {})
        if end > 65536:
            problem = f"leaves no port for each of {end - base} workers; use one from 20000 upwards"
            yield engine.fault(_SIDE_CHANNEL, base, problem)
        elif taken := _taken(base, end, others):
            yield engine.fault(
                _SIDE_CHANNEL, base, f"and the {end - base} ports from there: {_told(taken, '20000')}"
            )


def _taken(start: int, end: int, others: dict[str, range]) -> str | None:
    return next((who for who, ports in others.items() if start < ports.stop and ports.start < end), None)


def _told(taken: str, better: str) -> str:
    return f"meets a port of {taken} in the same pod; use another, such as {better}"


def _master_ports(engine: Engine, rendered: Rendered) -> range | None:
    value: object = rendered.config
    for key in (*engine.path, *_MASTER_PORT):
        value = value[key]  # type: ignore[index]
    return range(int(value), int(value) + _MASTER_PORTS) if str(value).isdecimal() else None  # type: ignore[call-overload]
