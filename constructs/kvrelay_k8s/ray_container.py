"""What Ray's containers share: ports, environment, security, probes, and how they end."""

from __future__ import annotations

from typing import Any

from kvrelay.serve_app import INGRESS_MOUNT
from kvrelay.settings import Serving
from kvrelay_k8s.names import AGENT_PORT, CLIENT_PORT, DASHBOARD_PORT, GCS_PORT, METRICS_PORT

Object = dict[str, Any]

SCRIPTS_PATH = "/opt/kvrelay"
"""Where the scripts' ConfigMap is mounted."""
SCRIPTS_CONFIG_MAP = "kvrelay-scripts"
INGRESS_CONFIG_MAP = "kvrelay-ingress"

_QUIET = {
    # Neither Ray nor vLLM calls home from someone's cluster.
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}


def ingress_volume() -> Object:
    """The module of the app's ingress class. Ray imports it on the head too, where it builds the app."""
    return {"name": "ingress", "configMap": {"name": INGRESS_CONFIG_MAP}}


def ingress_mount() -> Object:
    """Where the rendered serve config says that the module is."""
    return {"name": "ingress", "mountPath": INGRESS_MOUNT, "readOnly": True}


def environment(variables: dict[str, str]) -> list[Object]:
    """A container's `env`, the quiet ones included."""
    return [{"name": name, "value": value} for name, value in {**_QUIET, **variables}.items()]


def security_context(serving: Serving) -> Object:
    """The one place that says what a worker's container may do.

    `privileged` is what AWS's own sample needed: NIXL registers GPU memory with the EFA device, which IPC_LOCK alone
    did not allow there. A privileged container also sees every device of its node, whatever its limits say.
    `ipc-lock` may pin memory, and nothing more than any container. Root in both, also where an image names another
    user: the node's cache directory is root's, and without root no added capability is in force.
    """
    if serving.security_profile == "privileged":
        return {"privileged": True, "runAsUser": 0}
    return {
        "runAsUser": 0,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "capabilities": {"add": ["IPC_LOCK"], "drop": ["NET_RAW"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def head_ports(serve_port: int) -> list[Object]:
    """KubeRay needs those named dashboard and serve."""
    return _ports(
        {
            "gcs-server": GCS_PORT,
            "dashboard": DASHBOARD_PORT,
            "client": CLIENT_PORT,
            "metrics": METRICS_PORT,
            "serve": serve_port,
        }
    )


def worker_ports(serve_port: int) -> list[Object]:
    """Where a worker is called from outside Ray: requests and Prometheus."""
    return _ports({"metrics": METRICS_PORT, "serve": serve_port})


def _ports(numbers: dict[str, int]) -> list[Object]:
    return [{"name": name, "containerPort": number} for name, number in numbers.items()]


def alive() -> Object:
    """Liveness of any Ray pod: its raylet answers (Ray 2.53 and newer). It can't tell a wedged engine: Serve's own
    health checks replace those."""
    return {
        "httpGet": {"path": "/api/healthz", "port": AGENT_PORT},
        "initialDelaySeconds": 30,
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 120,
    }


def head_ready() -> Object:
    """Readiness of the head: raylet and GCS answer; the operator then sends it the serve config."""
    return {
        "httpGet": {"path": "/api/healthz", "port": AGENT_PORT},
        "initialDelaySeconds": 10,
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 10,
    }


def worker_ready(serve_port: int) -> Object:
    """Readiness of a worker: its Serve proxy answers, so that the Service sends it requests.

    A proxy runs where a replica runs: a worker without one is not ready, and the Service leaves it out.
    """
    return {
        "httpGet": {"path": "/-/healthz", "port": serve_port},
        "initialDelaySeconds": 10,
        "periodSeconds": 5,
        "timeoutSeconds": 5,
        "failureThreshold": 1,
    }


def drain(seconds: int) -> Object:
    """Before a worker's pod ends: Ray stops placing work there, and answers under way are finished."""
    return {
        "preStop": {"exec": {"command": ["python3", f"{SCRIPTS_PATH}/drain.py", "--seconds", str(seconds)]}}
    }
