"""The local control plane itself: it starts, schedules on simulated nodes, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import Api, ApiError, Fault, LocalCluster, gpu_node, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.nodes import GPU
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import GPU_TAINT_KEY, GPU_WORKER_ROLE, ROLE_LABEL, SYSTEM_ROLE


def pod(name: str, *, gpus: int = 0, namespace: str = "default", **spec: object) -> Object:
    limits = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "image": "example", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def role_of(api: Api, node_name: str) -> str:
    labels = api.get("v1", "Node", node_name)["metadata"]["labels"]
    return str(labels[ROLE_LABEL])


def phase(api: Api, name: str) -> str:
    return str(api.get("v1", "Pod", name, "default")["status"]["phase"])


def condition(item: Object, kind: str) -> Object:
    return next((each for each in item["status"].get("conditions", []) if each["type"] == kind), {})


def remove(api: Api, name: str) -> None:
    api.delete(f"/api/v1/namespaces/default/pods/{name}")
    wait_for("pod gone", lambda: api.find("v1", "Pod", name, "default") is None)


def test_kubernetes_has_the_version_that_the_deployment_names(cluster: LocalCluster) -> None:
    version = cluster.api.request("GET", "/version")
    assert f"{version['major']}.{version['minor']}" == Deployment().cluster.kubernetes_version


def test_a_pod_without_toleration_runs_on_the_system_node(cluster: LocalCluster) -> None:
    cluster.api.create(pod("plain"))
    wait_for("running", lambda: phase(cluster.api, "plain") == "Running")
    node = cluster.api.get("v1", "Pod", "plain", "default")["spec"]["nodeName"]
    assert role_of(cluster.api, node) == SYSTEM_ROLE
    remove(cluster.api, "plain")


def test_a_pod_with_toleration_and_gpu_runs_on_a_gpu_node(cluster: LocalCluster) -> None:
    tolerations = [{"key": GPU_TAINT_KEY, "operator": "Exists"}]
    cluster.api.create(pod("gpu", gpus=1, tolerations=tolerations))
    wait_for("running", lambda: phase(cluster.api, "gpu") == "Running")
    node = cluster.api.get("v1", "Pod", "gpu", "default")["spec"]["nodeName"]
    assert role_of(cluster.api, node) == GPU_WORKER_ROLE
    remove(cluster.api, "gpu")


def test_a_pod_that_asks_for_too_much_says_why_it_waits(cluster: LocalCluster) -> None:
    cluster.api.create(pod("huge", gpus=9, tolerations=[{"operator": "Exists"}]))

    def refused() -> Object:
        return condition(cluster.api.get("v1", "Pod", "huge", "default"), "PodScheduled")

    wait_for("refused", lambda: refused().get("status") == "False")
    assert "Insufficient nvidia.com/gpu" in refused()["message"]
    remove(cluster.api, "huge")


@pytest.mark.parametrize(
    ("fault", "reason"), [(Fault.CRASH, "CrashLoopBackOff"), (Fault.IMAGE_PULL, "ImagePullBackOff")]
)
def test_a_broken_pod_mends_when_the_fault_ends(cluster: LocalCluster, fault: Fault, reason: str) -> None:
    cluster.kubelet.break_pods(fault, lambda each: each["metadata"]["name"] == "frail")
    cluster.api.create(pod("frail"))

    def waiting() -> str:
        statuses = cluster.api.get("v1", "Pod", "frail", "default")["status"].get("containerStatuses", [{}])
        return str(statuses[0].get("state", {}).get("waiting", {}).get("reason"))

    wait_for("broken", lambda: waiting() == reason)
    cluster.kubelet.mend()
    wait_for("mended", lambda: phase(cluster.api, "frail") == "Running")
    remove(cluster.api, "frail")


def test_a_fault_reaches_pods_that_run_already(cluster: LocalCluster) -> None:
    cluster.api.create(pod("later"))
    wait_for("running", lambda: phase(cluster.api, "later") == "Running")
    cluster.kubelet.break_pods(Fault.NEVER_READY, lambda each: each["metadata"]["name"] == "later")

    def ready() -> str:
        return str(condition(cluster.api.get("v1", "Pod", "later", "default"), "Ready").get("status"))

    wait_for("not ready", lambda: ready() == "False")
    cluster.kubelet.mend()
    wait_for("ready", lambda: ready() == "True")
    remove(cluster.api, "later")


def test_a_removed_node_takes_its_pods_along(cluster: LocalCluster) -> None:
    node = gpu_node(Deployment(), "gpu", "ip-10-0-9-9.us-east-2.compute.internal", plugged=True)
    cluster.kubelet.register(node)
    cluster.api.create(
        pod("there", nodeSelector={"kubernetes.io/hostname": node.name}, tolerations=[{"operator": "Exists"}])
    )
    wait_for("running", lambda: phase(cluster.api, "there") == "Running")
    cluster.kubelet.remove(node.name)
    wait_for("pod gone", lambda: cluster.api.find("v1", "Pod", "there", "default") is None)
    assert cluster.api.find("v1", "Node", node.name) is None


def test_a_lost_node_is_tainted_and_its_pods_are_not_ready(cluster: LocalCluster) -> None:
    node = gpu_node(Deployment(), "gpu", "ip-10-0-9-8.us-east-2.compute.internal", plugged=True)
    cluster.kubelet.register(node)
    cluster.api.create(
        pod(
            "silent", nodeSelector={"kubernetes.io/hostname": node.name}, tolerations=[{"operator": "Exists"}]
        )
    )
    wait_for("running", lambda: phase(cluster.api, "silent") == "Running")
    cluster.kubelet.lose(node.name)

    def taints() -> set[str]:
        spec = cluster.api.get("v1", "Node", node.name)["spec"]
        return {taint["key"] for taint in spec.get("taints", [])}

    wait_for("tainted", lambda: "node.kubernetes.io/unreachable" in taints())
    lost = cluster.api.get("v1", "Pod", "silent", "default")
    assert condition(lost, "Ready")["status"] == "False"
    cluster.kubelet.remove(node.name)
    wait_for("pod gone", lambda: cluster.api.find("v1", "Pod", "silent", "default") is None)


def test_devices_appear_once_their_plugin_runs(cluster: LocalCluster) -> None:
    node = gpu_node(Deployment(), "gpu", "ip-10-0-9-7.us-east-2.compute.internal")
    cluster.kubelet.register(node)
    assert GPU not in cluster.api.get("v1", "Node", node.name)["status"]["allocatable"]
    plugin = pod(
        "plugin", nodeSelector={"kubernetes.io/hostname": node.name}, tolerations=[{"operator": "Exists"}]
    )
    plugin["spec"]["containers"][0]["image"] = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    cluster.api.create(plugin)
    wait_for(
        "offered", lambda: cluster.api.get("v1", "Node", node.name)["status"]["allocatable"].get(GPU) == "1"
    )
    remove(cluster.api, "plugin")
    cluster.kubelet.remove(node.name)


def test_pod_security_warnings_are_kept(cluster: LocalCluster) -> None:
    before = len(cluster.api.warnings)
    labels = {"pod-security.kubernetes.io/warn": "restricted"}
    cluster.api.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}}
    )
    wait_for("account", lambda: cluster.api.find("v1", "ServiceAccount", "default", "strict"))
    cluster.api.create(pod("lax", namespace="strict"))
    assert "restricted" in " ".join(cluster.api.warnings[before:])


def test_errors_name_what_the_server_says(cluster: LocalCluster) -> None:
    with pytest.raises(ApiError, match=r'NotFound \(404\): pods "nobody" not found'):
        cluster.api.get("v1", "Pod", "nobody", "default")


def test_plain_kubectl_style_credentials_work(cluster: LocalCluster) -> None:
    """The kubernetes client reads the kubeconfig that `cluster up` prints."""
    from kubernetes import client, config

    config.load_kube_config(str(cluster.kubeconfig))
    assert len(client.CoreV1Api().list_node().items) >= 3


def test_only_one_loopback_port_is_open_outside(cluster: LocalCluster) -> None:
    port = int(cluster.endpoint.url.rpartition(":")[2])
    listening = subprocess.run(["ss", "-Hltn", f"sport = :{port}"], capture_output=True, text=True).stdout
    assert [line.split()[3] for line in listening.splitlines()] == [f"127.0.0.1:{port}"]
    if cluster.plane.network.isolated:
        for child in cluster.plane.children.values():
            assert Path(f"/proc/{child.pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def test_a_stopped_cluster_leaves_no_process_and_no_port(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "first", nodes=nodes_of(Deployment())) as first:
        with LocalCluster(tmp_path / "second") as second:
            assert first.endpoint.url != second.endpoint.url
            assert len(second.api.list("v1", "Node")) == 0
        pids = [child.pid for child in first.plane.children.values()]
        port = int(first.endpoint.url.rpartition(":")[2])
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert not _processes_that_name(tmp_path)


def test_a_killed_owner_takes_its_cluster_along(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib, json\n"
        "from kvrelay.local.kubernetes import LocalCluster\n"
        "with LocalCluster(pathlib.Path(sys.argv[1])) as cluster:\n"
        "    print(json.dumps([child.pid for child in cluster.plane.children.values()]), flush=True)\n"
        "    time.sleep(600)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pids = json.loads(owner.stdout.readline())
    assert len(pids) == 4
    os.kill(owner.pid, 9)
    owner.wait()
    wait_for("all gone", lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()], 10)
    wait_for("network gone", lambda: not _processes_that_name(tmp_path), 10)


def _processes_that_name(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found
