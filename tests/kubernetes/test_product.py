"""All that the product applies, in a real cluster under the real operator: admitted, placed, nothing forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import Api, LocalCluster, apply_all, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.audit import Audit, read_audit
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import GPU_WORKER_ROLE, ROLE_LABEL, SYSTEM_ROLE
from tests.kubernetes.product import (
    OPERATOR_NAMESPACE,
    OPERATOR_USER,
    SERVE_CONFIGS,
    objects_of,
    ray_service_of,
    running_product,
)
from tests.kubernetes.ray_service import Service, condition


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The reference deployment with its RayService, on its nodes."""
    deployment = Deployment()
    with running_product(tmp_path_factory.mktemp("cluster"), deployment) as cluster:
        cluster.api.apply(ray_service_of(deployment))
        service = service_in(cluster)
        wait_for("all pods placed", lambda: len(placed(service)) == 3, 120)
        yield cluster


def service_in(cluster: LocalCluster) -> Service:
    serving = Deployment().serving
    return Service(cluster.api, serving.namespace, serving.service_name)


def placed(service: Service) -> dict[str, str]:
    """The node of each group's pod that has one."""
    return {
        pod["metadata"]["labels"]["ray.io/group"]: pod["spec"]["nodeName"]
        for pod in service.pods()
        if pod["spec"].get("nodeName")
    }


def role_of(api: Api, node: str) -> str:
    return str(api.get("v1", "Node", node)["metadata"]["labels"][ROLE_LABEL])


def operator_pods(cluster: LocalCluster) -> list[Object]:
    return cluster.api.list("v1", "Pod", OPERATOR_NAMESPACE)


def audit(cluster: LocalCluster) -> Audit:
    return read_audit(cluster.plane.audit_log, OPERATOR_USER)


@pytest.mark.parametrize("config", sorted(path.name for path in SERVE_CONFIGS.glob("*.yaml")))
def test_every_object_of_every_serve_config_is_admitted_without_a_warning(
    cluster: LocalCluster, config: str
) -> None:
    assert apply_all(cluster.api, objects_of(Deployment(), config)) == []


def test_prefill_and_decode_run_on_distinct_gpu_nodes(product: LocalCluster) -> None:
    nodes = placed(service_in(product))
    assert nodes["prefill"] != nodes["decode"]
    assert {role_of(product.api, nodes[each]) for each in ("prefill", "decode")} == {GPU_WORKER_ROLE}


def test_head_and_operator_run_on_the_system_node(product: LocalCluster) -> None:
    (operator,) = operator_pods(product)
    nodes = (placed(service_in(product))["headgroup"], operator["spec"]["nodeName"])
    assert {role_of(product.api, node) for node in nodes} == {SYSTEM_ROLE}


def test_nothing_is_forbidden_to_the_operator(product: LocalCluster) -> None:
    found = audit(product)
    assert found.used, "the operator asked nothing: the audit log is not its own"
    assert sorted(map(str, found.refused)) == []


def test_with_one_gpu_node_one_role_waits_and_says_for_what(tmp_path: Path) -> None:
    deployment = Deployment()
    nodes = nodes_of(deployment, plugged=True)
    with running_product(tmp_path, deployment, nodes=nodes[:-1]) as cluster:
        cluster.api.apply(ray_service_of(deployment))
        service = service_in(cluster)
        wait_for("one role placed", lambda: len(placed(service)) == 2, 120)

        def waiting() -> str:
            pods = [pod for pod in service.pods() if not pod["spec"].get("nodeName")]
            return condition(pods[0], "PodScheduled").get("message", "") if len(pods) == 1 else ""

        wait_for("a reason", lambda: "Insufficient nvidia.com/gpu" in waiting())
        cluster.kubelet.register(nodes[-1])
        wait_for("both roles placed", lambda: len(placed(service)) == 3, 120)
