"""All that the product applies, in a real cluster under the real operator: admitted without a warning, and placed."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from kvrelay.local.kubernetes import LocalCluster, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.ops.wait.cluster_phases import workers
from kvrelay.ops.wait.snapshot import Snapshot
from kvrelay.ops.wait.wanted import Wanted
from kvrelay.serve_app import worker_groups
from kvrelay.settings.scheduling import GPU_WORKER_ROLE, ROLE_LABEL, SYSTEM_ROLE
from tests.kubernetes.product import (
    CONFIG,
    OPERATOR_NAMESPACE,
    applied,
    node_of,
    operator_log,
)
from tests.kubernetes.ray_service import Service
from tests.serve_app.examples import DEPLOYMENTS, example

ON_EVERY_NODE = {"aws-node", "kube-proxy", "eks-pod-identity-agent"}
DEVICE_PLUGINS = {"nvidia-device-plugin", "aws-efa-k8s-device-plugin"}


def group_of(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["ray.io/group"])


def placed(service: Service) -> Counter[str]:
    """How many pods of each group have a node."""
    return Counter(group_of(pod) for pod in service.pods() if node_of(pod))


def roles(cluster: LocalCluster) -> dict[str, str]:
    """The role of each node."""
    return {
        node["metadata"]["name"]: node["metadata"]["labels"][ROLE_LABEL]
        for node in cluster.api.list("v1", "Node")
    }


def purpose(pod: Object) -> str:
    """What a pod is, by its owner: a DaemonSet's or Deployment's name, or `worker` and `head` of Ray."""
    kind = pod["metadata"]["labels"].get("ray.io/node-type")
    (owner,) = pod["metadata"]["ownerReferences"]
    name = owner["name"] if owner["kind"] == "DaemonSet" else owner["name"].rpartition("-")[0]
    return str(kind or name)


@pytest.mark.parametrize("config", DEPLOYMENTS)
def test_a_serve_config_is_admitted_without_a_warning_and_placed_as_planned(
    product: LocalCluster, config: str
) -> None:
    deployment = DEPLOYMENTS[config]
    plan = {group.name: group.pods for group in worker_groups(example(config), deployment)}
    with applied(product, config) as found:
        assert found.warnings == []
        service = found.service
        wait_for("all of Ray placed", lambda: placed(service) == {**plan, "headgroup": 1}, 120)
        role = roles(product)
        pods = [pod for pod in product.api.list("v1", "Pod") if not pod["metadata"].get("deletionTimestamp")]
        on_gpu_nodes = {purpose(pod) for pod in pods if role.get(node_of(pod)) == GPU_WORKER_ROLE}
        on_system_nodes = {purpose(pod) for pod in pods if role.get(node_of(pod)) == SYSTEM_ROLE}
        ray = service.pods()

    assert on_gpu_nodes == ON_EVERY_NODE | DEVICE_PLUGINS | {"worker"}
    # With the requests that EKS's add-ons make, all of it fits one m7i.xlarge.
    assert on_system_nodes == ON_EVERY_NODE | {"coredns", "metrics-server", "kuberay-operator", "head"}
    assert [pod["metadata"]["name"] for pod in pods if not node_of(pod)] == []
    workers_on = Counter(node_of(pod) for pod in ray if group_of(pod) != "headgroup")
    assert set(workers_on.values()) == {1}, (
        "each worker has a node of its own, so prefill and decode are apart"
    )


def test_the_operator_was_warned_of_nothing_and_refused_nothing(product: LocalCluster) -> None:
    """Pods' own warnings (deprecations, pod security) come to whoever creates them: the operator."""
    with applied(product, CONFIG) as found:
        wait_for("all of Ray placed", lambda: placed(found.service).total() == 3, 120)
        log = operator_log(product)
    assert "Creating a new" in log or "Created" in log, "the log is not the operator's"
    assert [line for line in log.splitlines() if "KubeAPIWarningLogger" in line or "forbidden" in line] == []


@pytest.mark.parametrize("namespace", ["inference", OPERATOR_NAMESPACE])
def test_what_no_policy_allows_is_denied(product: LocalCluster, namespace: str) -> None:
    with applied(product, CONFIG, gpu_nodes=0):
        policy = product.api.get("networking.k8s.io/v1", "NetworkPolicy", "default-deny", namespace)
    assert policy["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def test_with_one_gpu_node_decode_waits_and_kvrelay_wait_says_for_what(product: LocalCluster) -> None:
    deployment = DEPLOYMENTS[CONFIG]
    wanted = Wanted.of(deployment, example(CONFIG))
    with applied(product, CONFIG, gpu_nodes=1) as found:
        service = found.service

        def read() -> Snapshot:
            return Snapshot(
                at=datetime.now(UTC),
                cluster="ACTIVE",
                nodes=tuple(product.api.list("v1", "Node")),
                pods=tuple(service.pods()),
                ray_service=service.read(),
            )

        wait_for(
            "prefill placed", lambda: workers(read(), wanted).detail == "prefill 1 of 1, decode 0 of 1", 120
        )
        cause = wait_for("a cause", lambda: workers(read(), wanted).cause, 60)
        assert cause is not None
        assert cause.said.startswith("decode pod ")
        assert cause.said.endswith("waits: no node has a free GPU (nvidia.com/gpu)")

        second = [node for node in nodes_of(deployment) if node.taints][1]
        product.kubelet.register(second)
        wait_for("both placed", lambda: workers(read(), wanted).done, 120)
        service.delete()
        wait_for("pods gone", lambda: not service.pods(), 90)
        product.kubelet.remove(second.name)
