"""The programs that really run in a local cluster's pods: the KubeRay operator and Ray heads."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.local.kubernetes.tools import program

OPERATOR = "kuberay-operator"
RAY_HEAD = "ray-head"

# Ray takes 30 % of this machine's memory for its object store otherwise.
_SMALL = "--object-store-memory=100000000"
# A busy machine of two cores takes longer than Ray's half minute to start the dashboard's nine processes.
_PATIENT = {
    "RAY_DASHBOARD_SUBPROCESS_MODULE_WAIT_READY_TIMEOUT": "120",
    "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "150",
}


def kuberay_operator() -> Program:
    """Runs the built operator in every pod whose image is the operator's, with the arguments that the pod gives it."""

    def command(container: Object, address: str) -> list[str]:
        return [str(program("kuberay-operator")), *container.get("args", [])]

    return Program(OPERATOR, lambda pod: "kuberay/operator" in _image(pod), command)


def ray_head(environment: Path, extra: Mapping[str, str] | None = None) -> Program:
    """Runs a real Ray head, from the Python environment given, in every pod that KubeRay made as a head.

    The command is the pod's own; only where Ray is found, its address and the size of its store differ.
    """

    def command(container: Object, address: str) -> list[str]:
        line = " ".join(container.get("args", []))
        ray = shlex.quote(str(environment / "bin" / "ray"))
        own = f"{ray} start --node-ip-address={address} {_SMALL} "
        return ["bash", "-c", line.replace("ray start ", own, 1)]

    path = f"{environment / 'bin'}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    settings = {"PATH": path, "RAY_USAGE_STATS_ENABLED": "0", **_PATIENT, **(extra or {})}
    return Program(
        RAY_HEAD,
        lambda pod: pod["metadata"].get("labels", {}).get("ray.io/node-type") == "head",
        command,
        settings,
    )


def _image(pod: Object) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image
