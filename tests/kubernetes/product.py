"""The product's charts in a local cluster, with the real operator: what the tests here look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import kvrelay
from kvrelay.local.kubernetes import LocalCluster, SimulatedNode, apply_all, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import kuberay_operator
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import Deployment

SERVE_CONFIGS = Path(kvrelay.__file__).parent.parent / "serve_configs"
OPERATOR_NAMESPACE = "kuberay-system"
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:kuberay-operator"


def objects_of(deployment: Deployment, config: str = "qwen3-8b.yaml") -> list[Object]:
    """Every object that the Serving stack applies for that serve config."""
    # Here, so that tests which are skipped do not wait for jsii.
    from kvrelay_k8s import charts

    app = load_serve_app(SERVE_CONFIGS / config)
    return [item for each in charts(deployment, app) for item in each.objects]


def wait_for_operator(cluster: LocalCluster) -> None:
    """Returns once the operator's Deployment has a ready pod."""

    def ready() -> bool:
        found = cluster.api.get("apps/v1", "Deployment", "kuberay-operator", OPERATOR_NAMESPACE)
        return bool(found.get("status", {}).get("readyReplicas"))

    wait_for("the operator", ready, 120)


@contextmanager
def running_product(
    folder: Path,
    deployment: Deployment,
    *,
    nodes: Sequence[SimulatedNode] | None = None,
    programs: Sequence[Program] = (),
) -> Iterator[LocalCluster]:
    """A cluster with all that the product applies but the RayService, and the operator running."""
    with LocalCluster(
        folder,
        nodes=nodes_of(deployment, plugged=True) if nodes is None else nodes,
        programs=[kuberay_operator(), *programs],
        audited_users=(OPERATOR_USER,),
    ) as cluster:
        apply_all(cluster.api, [item for item in objects_of(deployment) if item["kind"] != "RayService"])
        wait_for_operator(cluster)
        yield cluster


def ray_service_of(deployment: Deployment, config: str = "qwen3-8b.yaml") -> Object:
    """The RayService that the Serving stack applies for that serve config."""
    (found,) = [item for item in objects_of(deployment, config) if item["kind"] == "RayService"]
    return found
