"""The programs that really run in a local cluster's pods: the KubeRay operator, Ray heads and workers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.local.kubernetes.tools import program

OPERATOR = "kuberay-operator"
RAY_HEAD = "ray-head"
RAY_WORKER = "ray-worker"

_RAY = Path(__file__).with_name("ray_without_client.py")
# Ray takes 30 % of this machine's memory for its object store otherwise.
_SMALL = "--object-store-memory=100000000"
# A busy machine of two cores takes longer than Ray's half minute to start the dashboard's nine processes.
_PATIENT = {
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "150",
}
# Cluster DNS is pods' /etc/hosts, which gRPC's own resolver passes over.
_NAMES = {"GRPC_DNS_RESOLVER": "native"}
# Dashboard pages that nobody looks at here: a process each, and a third of the head's start.
_PAGES = ("data", "event", "state", "train")


def kuberay_operator(extra: Mapping[str, str] | None = None) -> Program:
    """Runs the built operator in every pod whose image is the operator's, with the arguments that the pod gives it.

    `extra` are environment variables that the pod does not have.
    """

    def command(container: Object, address: str) -> list[str]:
        return [str(program("kuberay-operator")), *container.get("args", [])]

    return Program(OPERATOR, lambda pod: "kuberay/operator" in _image(pod), command, extra or {})


def ray_head(environment: Path, extra: Mapping[str, str] | None = None) -> Program:
    """Runs a real Ray head, from the Python environment given, in every pod that KubeRay made as a head."""
    return _ray(RAY_HEAD, environment, extra, lambda labels: labels.get("ray.io/node-type") == "head")


def ray_worker(environment: Path, group: str, extra: Mapping[str, str] | None = None) -> Program:
    """Runs a real Ray node in every worker pod of that group. Ray believes in the GPUs that it is told of."""
    return _ray(RAY_WORKER, environment, extra, lambda labels: labels.get("ray.io/group") == group)


def _ray(
    name: str,
    environment: Path,
    extra: Mapping[str, str] | None,
    matches: Callable[[Mapping[str, str]], bool],
) -> Program:
    """The command is the pod's own; only where Ray is found, its address and the size of its store differ."""

    def command(container: Object, address: str) -> list[str]:
        line = " ".join(container.get("args", []))
        ray = shlex.join([str(environment / "bin" / "python"), str(_RAY)])
        own = f"{ray} start --node-ip-address={address} {_SMALL} "
        return ["bash", "-c", line.replace("ray start ", own, 1)]

    path = f"{environment / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return Program(
        name,
        lambda pod: matches(pod["metadata"].get("labels", {})),
        command,
        {"PATH": path, "RAY_USAGE_STATS_ENABLED": "0", **_NAMES, **_PATIENT, **(extra or {})},
        tuple(
            folder
            for page in _PAGES
            for folder in environment.glob(f"lib/python*/site-packages/ray/dashboard/modules/{page}")
        ),
    )


def _image(pod: Object) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image
