"""The order in which objects go: ours leaves an empty cluster, the operator first leaves a service that never ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvrelay.local.kubernetes import Api, LocalCluster, apply_all, wait_for
from kvrelay.local.kubernetes.api import Object
from tests.kubernetes.product import (
    CONFIG,
    OPERATOR,
    OPERATOR_NAMESPACE,
    all_of_ours,
    applied,
    node_of,
    objects_of,
    operator_is_ready,
)
from tests.serve_app.examples import DEPLOYMENTS, example

if TYPE_CHECKING:
    from kvrelay_k8s import ManifestSet

LONG_ENOUGH_TO_HANG = 20


def sets() -> dict[str, ManifestSet]:
    from kvrelay_k8s import charts

    return {each.name: each for each in charts(DEPLOYMENTS[CONFIG], example(CONFIG))}


def in_order_of_destroy() -> Iterator[ManifestSet]:
    """Each set before those it depends on, as CloudFormation deletes them."""
    left = sets()
    while left:
        free = [name for name in left if not any(name in each.depends_on for each in left.values())]
        for name in free:
            yield left.pop(name)


def delete(api: Api, item: Object, seconds: float = 90) -> None:
    """As `kubectl delete` does: returns once the object is gone."""
    path = api.path_of(item)
    api.delete(path)
    metadata = item["metadata"]
    wait_for(
        f"{item['kind']} {metadata['name']} gone",
        lambda: (
            api.find(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace")) is None
        ),
        seconds,
    )


def restore(cluster: LocalCluster) -> None:
    """The product as other tests expect it."""
    objects = objects_of(DEPLOYMENTS[CONFIG])
    apply_all(cluster.api, [item for item in objects if item["kind"] != "RayService"])
    wait_for("the operator", lambda: operator_is_ready(cluster), 120)


def test_the_operator_first_leaves_a_ray_service_that_never_ends(product: LocalCluster) -> None:
    with applied(product, CONFIG) as found:
        service = found.service
        wait_for("pods placed", lambda: len([pod for pod in service.pods() if node_of(pod)]) == 3, 120)
        (deployment,) = [item for item in sets()["kuberay-operator"].objects if item["kind"] == "Deployment"]
        delete(product.api, deployment)
        wait_for("no operator", lambda: not product.api.list("v1", "Pod", OPERATOR_NAMESPACE))
        service.delete()
        time.sleep(LONG_ENOUGH_TO_HANG)
        left = service.read()["metadata"]
        assert left["deletionTimestamp"]
        assert left["finalizers"] == ["ray.io/rayservice-finalizer"]
        assert len(service.pods()) == 3, "its GPUs are still taken"

        restore(product)
        wait_for("the RayService gone", lambda: not service.exists() and not service.pods(), 90)


def test_no_dependency_lets_the_operator_go_before_the_ray_service() -> None:
    order = [each.name for each in in_order_of_destroy()]
    assert order.index("ray-service") < order.index(OPERATOR) < order.index("kuberay-crds")
    assert order.index(OPERATOR) < order.index("namespaces")


def test_the_stacks_own_order_leaves_nothing(product: LocalCluster) -> None:
    with applied(product, CONFIG) as found:
        service = found.service
        wait_for("pods placed", lambda: len([pod for pod in service.pods() if node_of(pod)]) == 3, 120)
        assert "RayService ray-llm" in all_of_ours(product.api)
        for each in in_order_of_destroy():
            for item in reversed(each.objects):
                delete(product.api, item)
        assert all_of_ours(product.api) == []
        assert not product.api.list("v1", "Pod", service.namespace)
        groups = {group["name"] for group in product.api.request("GET", "/apis")["groups"]}
        assert "ray.io" not in groups
        restore(product)
