"""Upgrades beside the old Ray cluster: without room they hang, with room they do what they say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import LocalCluster, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import RAY_HEAD, RAY_WORKER, ray_head, ray_worker
from kvrelay.local.kubernetes.ray_environment import ray_environment
from kvrelay.settings import Deployment
from tests.kubernetes.product import node_of, ray_service_of, running_product, service_in
from tests.kubernetes.ray_service import OTHER_IMAGE, Service, condition, with_tiny_app

# Room for both: two nodes serve, four are there when an upgrade comes.
SURGE = Deployment.model_validate(
    {"gpu_nodes": {"groups": [{"count": 4, "max_count": 4}]}, "serving": {"upgrade": "surge"}}
)
NODES = nodes_of(SURGE, plugged=True)
LONG_ENOUGH_TO_HANG = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The surge deployment with real heads and prefill workers, on the system node and two of its GPU nodes."""
    apps = {"PYTHONPATH": str(Path(__file__).parent / "serve_apps")}
    ray = ray_environment()
    programs = [ray_head(ray, apps), ray_worker(ray, "prefill", apps)]
    with running_product(
        tmp_path_factory.mktemp("upgrade"), SURGE, nodes=NODES[:3], programs=programs
    ) as running:
        yield running


def waiting(service: Service, ray_cluster: str) -> list[Object]:
    return [pod for pod in service.pods(cluster=ray_cluster) if not node_of(pod)]


def answers(cluster: LocalCluster, ray_cluster: str) -> bool:
    """Whether the worker of that Ray cluster answers, as the Service asks it."""
    for pod, worker in cluster.kubelet.programs.running(RAY_WORKER):
        if pod["metadata"]["labels"]["ray.io/cluster"] == ray_cluster:
            asked = ["wget", "-q", "-T", "5", "-O-", f"http://{worker.address}:8000/"]
            return worker.run(asked).stdout == "hello"
    return False


def served_by(service: Service) -> str:
    """The Ray cluster that the RayService's own Service leads to."""
    found = service.api.get("v1", "Service", f"{service.name}-serve-svc", service.namespace)
    return str(found["spec"]["selector"]["ray.io/cluster"])


def test_the_default_upgrade_hangs_on_two_gpu_nodes_and_ends_once_there_are_four(
    cluster: LocalCluster,
) -> None:
    service = service_in(cluster)
    cluster.api.apply(with_tiny_app(ray_service_of(SURGE), group="prefill"))
    old = service.wait_until_done()
    wait_for("answers", lambda: answers(cluster, old.active), 60, 1)

    # What KubeRay does when nothing is said, which is what `surge` says; and the old cluster goes at once.
    def plain(spec: Object) -> None:
        assert spec.pop("upgradeStrategy") == {"type": "NewCluster"}
        spec["rayClusterDeletionDelaySeconds"] = 1

    service.edit(plain)
    service.set_image(OTHER_IMAGE)
    begun = service.wait_until("upgrading", lambda state: state.upgrading and bool(state.pending))
    wait_for("workers wait", lambda: len(waiting(service, begun.pending)) == 2, 60)
    time.sleep(LONG_ENOUGH_TO_HANG)
    reasons = {condition(pod, "PodScheduled").get("message", "") for pod in waiting(service, begun.pending)}
    assert len(waiting(service, begun.pending)) == 2
    assert all("Insufficient nvidia.com/gpu" in reason for reason in reasons), reasons
    (head,) = service.pods("headgroup", cluster=begun.pending)
    assert node_of(head) == NODES[0].name, "a system node has room for two heads with surge"
    state = service.state()
    assert (state.active, state.upgrading, state.ready) == (old.active, True, True)
    assert answers(cluster, old.active)
    assert served_by(service) == old.active

    for node in NODES[3:]:
        cluster.kubelet.register(node)
    new = service.wait_until("upgraded", lambda state: state.done and state.active == begun.pending)
    assert served_by(service) == new.active
    # The Service leads to the new cluster a moment before the proxy on its worker is ready.
    wait_for("the new cluster answers", lambda: answers(cluster, new.active), 60, 0.5)
    wait_for("the old cluster gone", lambda: not service.pods(cluster=old.active), 90)
    assert service.images() == {OTHER_IMAGE}
    assert len(cluster.kubelet.programs.running(RAY_HEAD)) == 1
