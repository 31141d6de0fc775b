"""The product's charts in a local cluster, with the real operator: what the tests here look at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kvrelay.local.kubernetes import Api, LocalCluster, SimulatedNode, apply_all, nodes_of, wait_for
from kvrelay.local.kubernetes.add_ons import add_on_objects
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import kuberay_operator
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.settings import Deployment
from tests.kubernetes.ray_service import Service, with_tiny_app
from tests.serve_app.examples import DEPLOYMENTS, example

OPERATOR = "kuberay-operator"
OPERATOR_NAMESPACE = "kuberay-system"
OPERATOR_USER = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{OPERATOR}"
CONFIG = "qwen3-8b"
OURS = "app.kubernetes.io/part-of=kvrelay"
SIMULATED = {"kvrelay.test/simulated": "yes"}
"""Ray heads with this label only look as if they ran, where others really do."""


def objects_of(deployment: Deployment, config: str = CONFIG) -> list[Object]:
    """Every object that the Serving stack applies for that serve config, in its order."""
    # Here, so that tests which are skipped do not wait for jsii.
    from kvrelay_k8s import charts

    return [item for each in charts(deployment, example(config)) for item in each.objects]


def operator_is_ready(cluster: LocalCluster) -> bool:
    """Whether the operator's Deployment has a ready pod."""
    found = cluster.api.find("apps/v1", "Deployment", OPERATOR, OPERATOR_NAMESPACE)
    return bool(found and found.get("status", {}).get("readyReplicas"))


def operator_log(cluster: LocalCluster) -> str:
    """What the operator that runs now has written."""
    ((_, operator),) = cluster.kubelet.programs.running(OPERATOR)
    return operator.log.read_text()


@contextmanager
def running_product(
    folder: Path,
    deployment: Deployment,
    *,
    nodes: Sequence[SimulatedNode] | None = None,
    programs: Sequence[Program] = (),
    operator: Program | None = None,
) -> Iterator[LocalCluster]:
    """A cluster with EKS's add-ons, all that the product applies but the RayService, and the operator running."""
    with LocalCluster(
        folder,
        nodes=nodes_of(deployment, plugged=True) if nodes is None else nodes,
        programs=[operator or kuberay_operator(), *programs],
        audited_users=(OPERATOR_USER,),
    ) as cluster:
        objects = [item for item in objects_of(deployment) if item["kind"] != "RayService"]
        apply_all(cluster.api, [*add_on_objects(), *objects])
        wait_for("the operator", lambda: operator_is_ready(cluster), 180)
        yield cluster


def ray_service_of(deployment: Deployment, config: str = CONFIG) -> Object:
    """The RayService that the Serving stack applies for that serve config."""
    (found,) = [item for item in objects_of(deployment, config) if item["kind"] == "RayService"]
    return found


def service_in(cluster: LocalCluster, deployment: Deployment | None = None) -> Service:
    """The RayService by the name that the deployment gives it."""
    serving = (deployment or Deployment()).serving
    return Service(cluster.api, serving.namespace, serving.service_name)


def serving_service(cluster: LocalCluster) -> Service:
    """The reference RayService with a tiny app, once it serves; applied where it is not there."""
    found = service_in(cluster)
    if not found.exists():
        cluster.api.apply(with_tiny_app(ray_service_of(Deployment())))
    found.wait_until_done()
    return found


@dataclass(frozen=True)
class Applied:
    """A serve config in the cluster: its RayService, and what the server warned of."""

    service: Service
    warnings: list[str]


@contextmanager
def applied(cluster: LocalCluster, config: str, *, gpu_nodes: int | None = None) -> Iterator[Applied]:
    """All objects of a serve config on its deployment's GPU nodes (or the first so many), and none of both after."""
    deployment = DEPLOYMENTS[config]
    nodes = [node for node in nodes_of(deployment) if node.taints][:gpu_nodes]
    for node in nodes:
        cluster.kubelet.register(node)
    service = service_in(cluster, deployment)
    try:
        yield Applied(service, apply_all(cluster.api, objects_of(deployment, config)))
    finally:
        service.delete()
        wait_for("the RayService gone", lambda: not service.exists() and not service.pods(), 90)
        for node in nodes:
            cluster.kubelet.remove(node.name)


def node_of(pod: Object) -> str:
    """The name of the pod's node; empty where it has none yet."""
    return str(pod["spec"].get("nodeName", ""))


def all_of_ours(api: Api) -> list[str]:
    """Kind and name of every object in the cluster that carries our label."""
    groups = [("/api/v1", "v1")]
    for group in api.request("GET", "/apis")["groups"]:
        version = group["preferredVersion"]["groupVersion"]
        groups.append((f"/apis/{version}", version))
    found = []
    for path, version in groups:
        for resource in api.request("GET", path)["resources"]:
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                items = api.list(version, resource["kind"], labels=OURS)
                found += [f"{resource['kind']} {item['metadata']['name']}" for item in items]
    return sorted(found)
