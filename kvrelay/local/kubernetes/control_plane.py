"""A real Kubernetes control plane as child processes: etcd, API server, controllers and scheduler."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kvrelay.local.kubernetes.api import Api, Endpoint
from kvrelay.local.kubernetes.certificates import Authority, KeyPair, service_account_keys
from kvrelay.local.kubernetes.network import GATEWAY, ClusterNetwork, free_port, why_not_isolated
from kvrelay.local.kubernetes.processes import Child
from kvrelay.local.kubernetes.tools import program

ADMIN_GROUP = "system:masters"
_SERVICE_RANGE = "10.96.0.0/16"
_READY_SECONDS = 120


class ControlPlane:
    """Context manager: `with ControlPlane(folder) as plane: plane.api.list("v1", "Node")`.

    `audited_users` are users whose every request is written to `audit_log`.
    Raises ToolsMissingError when the programs are not built, ProcessFailedError when one does not start.
    """

    def __init__(self, folder: Path, *, audited_users: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.audit_log = folder / "audit.log"
        self.children: dict[str, Child] = {}
        self._audited_users = audited_users
        self._network: ClusterNetwork | None = None
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """As an administrator."""
        assert self._api is not None, "not started"
        return self._api

    @property
    def network(self) -> ClusterNetwork:
        assert self._network is not None, "not started"
        return self._network

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends every process; those that write first ask the API server before it goes."""
        for name in reversed(self.children):
            self.children[name].kill()
        self.children.clear()
        if self._network:
            self._network.stop()

    def memory_mib(self) -> dict[str, float]:
        """Resident memory of each part."""
        return {name: child.memory_mib() for name, child in self.children.items()}

    def _start(self) -> None:
        self._network = ClusterNetwork(self.folder, isolated=why_not_isolated() is None)
        authority = Authority(self.folder)
        accounts = service_account_keys(self.folder)
        url = f"https://127.0.0.1:{self.network.port}"
        endpoint = Endpoint(url, authority.path.read_text(), secrets.token_hex(32))
        self._api = Api(endpoint)
        write_kubeconfig(self.folder / "kubeconfig", {"token": endpoint.token}, url, authority.path)

        etcd_url = self._start_etcd()
        self._start_api_server(authority, accounts, etcd_url)
        self._start_controllers(authority, accounts, url)
        self._start_scheduler(authority, url)
        self._wait_for_first_account()

    def _run(self, name: str, *arguments: str) -> Child:
        command = [*self.network.inside(), str(program(name)), *arguments]
        child = Child(name, command, self.folder / f"{name}.log")
        self.children[name] = child
        return child

    def _start_etcd(self) -> str:
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._run(
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        return client

    def _start_api_server(self, authority: Authority, accounts: KeyPair, etcd_url: str) -> None:
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.api.endpoint.token},admin,admin,"{ADMIN_GROUP}"\n')
        serving = authority.server("kube-apiserver", ["127.0.0.1", GATEWAY, "10.96.0.1"])
        server = self._run(
            "kube-apiserver",
            f"--etcd-servers={etcd_url}",
            f"--bind-address={self.network.bind_address}",
            f"--advertise-address={GATEWAY}",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.network.port}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--cert-dir={self.folder / 'apiserver'}",
            f"--client-ca-file={authority.path}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            f"--service-cluster-ip-range={_SERVICE_RANGE}",
            "--allow-privileged",
            "--profiling=false",
            f"--audit-policy-file={self._write_audit_policy()}",
            f"--audit-log-path={self.audit_log}",
        )
        server.wait_until(self.api.ready, _READY_SECONDS)

    def _start_controllers(self, authority: Authority, accounts: KeyPair, url: str) -> None:
        self._run(
            "kube-controller-manager",
            f"--kubeconfig={self._component_kubeconfig(authority, 'system:kube-controller-manager', url)}",
            "--leader-elect=false",
            f"--root-ca-file={authority.path}",
            f"--service-account-private-key-file={accounts.key}",
            "--use-service-account-credentials",
            "--authentication-skip-lookup",
            # Simulated nodes send no heartbeat: whether one is lost is said by its status alone.
            "--node-monitor-grace-period=24h",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'controllers'}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )

    def _start_scheduler(self, authority: Authority, url: str) -> None:
        self._run(
            "kube-scheduler",
            f"--kubeconfig={self._component_kubeconfig(authority, 'system:kube-scheduler', url)}",
            "--leader-elect=false",
            "--authentication-skip-lookup",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self.folder / 'scheduler'}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )

    def _component_kubeconfig(self, authority: Authority, user: str, url: str) -> Path:
        pair = authority.client(user)
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        credentials = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        write_kubeconfig(path, credentials, url, authority.path)
        return path

    def _write_audit_policy(self) -> Path:
        watched = {"level": "Metadata", "users": list(self._audited_users), "omitStages": ["RequestReceived"]}
        rules: list[dict[str, Any]] = [watched] if self._audited_users else []
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [*rules, {"level": "None"}]}
        path = self.folder / "audit-policy.yaml"
        path.write_text(json.dumps(policy))
        return path

    def _wait_for_first_account(self) -> None:
        """Pods of a namespace are refused until the controllers have made its service account."""
        controllers = self.children["kube-controller-manager"]
        controllers.wait_until(
            lambda: self.api.find("v1", "ServiceAccount", "default", "default") is not None, _READY_SECONDS
        )


def write_kubeconfig(path: Path, user: dict[str, str], url: str, authority: Path) -> None:
    """Writes a kubeconfig of one cluster and one user (client-go reads JSON as YAML)."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": url, "certificate-authority": str(authority)}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "user"}}],
        "current-context": "local",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))
