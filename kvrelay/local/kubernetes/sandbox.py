"""A pod that really runs: one program with the pod's own address, names, service account and environment."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvrelay.local.kubernetes.api import Api, Object
from kvrelay.local.kubernetes.network import GATEWAY, ClusterNetwork
from kvrelay.local.kubernetes.processes import Child, ProcessFailedError, memory_mib

_TOKEN_FOLDER = "/run/secrets/kubernetes.io/serviceaccount"
_RAY_FOLDER = Path("/tmp/ray")
# Runs in namespaces of its own, so nothing that it mounts or names is seen outside.
_SET_UP = """\
set -e
mount --make-rprivate /
mount -t tmpfs none /run
mkdir -p {token_folder}
mount --bind {account} {token_folder}
mount --bind {hosts} /etc/hosts
mount --bind {temporary} {ray_folder}
mount -t tmpfs none /dev/shm
for hidden in {hidden}; do mount -t tmpfs none "$hidden"; done
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip addr add {address}/32 dev eth0
ip link set eth0 up
ip route add {gateway} dev eth0
ip route add default via {gateway} dev eth0
exec "$@"
"""
_HTTP_PROBE = "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=float(sys.argv[2])).read()"


@dataclass(frozen=True)
class Program:
    """What really runs in the pods that `matches` picks; all other pods only look as if they ran."""

    name: str
    matches: Callable[[Object], bool]
    command: Callable[[Object, str], list[str]]
    """From the pod's first container and the pod's address to the command line."""
    environment: Mapping[str, str] = field(default_factory=dict)
    hidden: tuple[Path, ...] = ()
    """Folders that the program finds empty."""


class Sandbox:
    """One running pod. Its processes are in a process namespace of their own and all end with it."""

    def __init__(
        self, api: Api, network: ClusterNetwork, folder: Path, pod: Object, address: str, program: Program
    ) -> None:
        self._network = network
        self._container = pod["spec"]["containers"][0]
        self.address = address
        self.started = time.monotonic()
        account, temporary = folder / "account", folder / "tmp"
        for each in (account, temporary, _RAY_FOLDER):
            each.mkdir(parents=True, exist_ok=True)
        namespace = pod["metadata"]["namespace"]
        name = pod["spec"].get("serviceAccountName", "default")
        (account / "token").write_text(api.token(namespace, name))
        (account / "ca.crt").write_text(api.endpoint.ca_pem)
        (account / "namespace").write_text(namespace)
        script = _SET_UP.format(
            account=account,
            hosts=network.hosts_file,
            temporary=temporary,
            address=address,
            gateway=GATEWAY,
            token_folder=_TOKEN_FOLDER,
            ray_folder=_RAY_FOLDER,
            hidden=shlex.join(map(str, program.hidden)),
        )
        environment = {
            "HOME": str(temporary),
            "LANG": "C.UTF-8",
            "KUBERNETES_SERVICE_HOST": GATEWAY,
            "KUBERNETES_SERVICE_PORT": str(network.port),
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            **environment_of(api, pod, self._container, address),
            **program.environment,
        }
        isolate = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"]
        command = program.command(self._container, address)
        self._child = Child(
            program.name,
            [*network.inside(), *isolate, "sh", "-c", script, "sh", *command],
            folder.with_suffix(".log"),
            environment,
        )
        self._connect()

    @property
    def exit_code(self) -> int | None:
        return self._child.exit_code

    @property
    def log(self) -> Path:
        return self._child.log

    def memory_mib(self) -> float:
        """Resident memory of the program itself."""
        inner = self._first_process()
        return memory_mib(inner) if inner else 0.0

    def ready(self) -> bool:
        """Whether the container's own readiness probe succeeds; without one, whether it runs."""
        probe = self._container.get("readinessProbe")
        if self.exit_code is not None:
            return False
        if not probe:
            return True
        seconds = probe.get("timeoutSeconds", 1)
        if "exec" in probe:
            return self._succeeds(probe["exec"]["command"], seconds)
        if "httpGet" in probe:
            get = probe["httpGet"]
            url = f"http://{self.address}:{self._port(get['port'])}{get.get('path', '/')}"
            # A Python process takes a moment to start on a busy machine; the answer itself has the probe's time.
            return self._succeeds([sys.executable, "-c", _HTTP_PROBE, url, str(seconds)], seconds + 10)
        return True

    def run(self, command: Sequence[str], seconds: float = 30) -> subprocess.CompletedProcess[str]:
        """Runs a command inside the pod, as `kubectl exec` would."""
        inner = self._first_process()
        if inner is None:
            raise ProcessFailedError(f"{self._child.name} does not run: {self._child.last_words()}")
        enter = ["nsenter", f"--target={inner}", "--net", "--mount", "--pid", "--"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, timeout=seconds)

    def stop(self) -> None:
        """Ends every process of the pod."""
        self._child.kill()

    def last_words(self) -> str:
        return self._child.last_words()

    def _port(self, port: int | str) -> int:
        if isinstance(port, int):
            return port
        named = {each.get("name"): each["containerPort"] for each in self._container.get("ports", [])}
        return int(named[port])

    def _succeeds(self, command: Sequence[str], seconds: float) -> bool:
        try:
            return self.run(command, seconds).returncode == 0
        except (subprocess.TimeoutExpired, ProcessFailedError):
            return False

    def _connect(self) -> None:
        """Gives the pod its network once it has left ours."""
        ours = {Path("/proc/self/ns/net").readlink(), self._network.namespace()}
        deadline = time.monotonic() + 20
        while True:
            if self.exit_code is not None:
                raise ProcessFailedError(f"{self._child.name} ended: {self._child.last_words()}")
            if Path(f"/proc/{self._child.pid}/ns/net").readlink() not in ours:
                break
            if time.monotonic() > deadline:
                raise ProcessFailedError(f"{self._child.name} got no network namespace within 20 s")
            time.sleep(0.02)
        self._network.link(self._child.pid, self.address)

    def _first_process(self) -> int | None:
        try:
            children = Path(f"/proc/{self._child.pid}/task/{self._child.pid}/children").read_text().split()
        except FileNotFoundError:
            return None
        return int(children[0]) if children else None


def environment_of(api: Api, pod: Object, container: Object, address: str) -> dict[str, str]:
    """The container's environment, with what it takes from the pod, from Secrets and from ConfigMaps."""
    namespace = pod["metadata"]["namespace"]
    values: dict[str, str] = {}
    for entry in container.get("env", []):
        source = entry.get("valueFrom", {})
        if "fieldRef" in source:
            value = _field(pod, source["fieldRef"]["fieldPath"], address)
        elif "secretKeyRef" in source or "configMapKeyRef" in source:
            found = _referenced(api, namespace, source)
            if found is None:
                continue
            value = found
        elif "resourceFieldRef" in source:
            continue
        else:
            value = entry.get("value", "")
        values[entry["name"]] = expand(value, values)
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` as Kubernetes does: unknown names stay as they are."""
    return re.sub(r"\$\(([\w.-]+)\)", lambda found: values.get(found[1], found[0]), text)


def _field(pod: Object, path: str, address: str) -> str:
    if path in ("status.podIP", "status.hostIP"):
        return address
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(pod["metadata"].get(found[1], {}).get(found[2], ""))
    value: object = pod
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, dict) else ""
    return str(value)


def _referenced(api: Api, namespace: str, source: Object) -> str | None:
    kind, key = ("Secret", "secretKeyRef") if "secretKeyRef" in source else ("ConfigMap", "configMapKeyRef")
    found = api.find("v1", kind, source[key]["name"], namespace)
    value = (found or {}).get("data", {}).get(source[key]["key"])
    if value is None:
        return None
    return base64.b64decode(value).decode() if kind == "Secret" else str(value)
