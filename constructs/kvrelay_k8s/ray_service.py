"""The RayService: the served model with its Ray cluster, derived from the serve config and the nodes."""

from __future__ import annotations

from cdk8s import Chart
from cdk8s_plus_28 import k8s
from constructs import Construct

from kvrelay.data import container_versions, known_container_tags, versions
from kvrelay.errors import InvalidFileError
from kvrelay.serve_app import Efa, ServeApp, WorkerGroup, render, worker_groups
from kvrelay.settings import Deployment
from kvrelay_k8s.model_access import ModelAccess
from kvrelay_k8s.names import RAY_NODE_TYPE_LABEL, labels
from kvrelay_k8s.ports import port_faults
from kvrelay_k8s.raw_object import RawObject
from kvrelay_k8s.ray_container import Object
from kvrelay_k8s.ray_head import head_group
from kvrelay_k8s.ray_workers import worker_group


class RayService(Chart):
    """The RayService, and how many of its workers may go at once.

    Raises InvalidFileError when two parts of a pod would take one port, or a pod asks for more than its node has.
    """

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment, app: ServeApp) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        serving = deployment.serving
        groups = worker_groups(app, deployment)
        access = ModelAccess.of(deployment)
        rendered = render(app, Efa.of(app, deployment, access.model_source))
        if faults := tuple(port_faults(app, rendered)):
            raise InvalidFileError(faults)
        RawObject(
            self,
            "RayService",
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayService",
                "metadata": {
                    "name": serving.service_name,
                    "namespace": serving.namespace,
                    "labels": labels("ray-service"),
                },
                "spec": {
                    "serveConfigV2": rendered.text,
                    # The default builds a second cluster beside the first, which a fixed number of GPU nodes can't
                    # hold (kuberay #5088). With None, serve config edits still apply in place; an image does not.
                    "upgradeStrategy": {"type": "NewCluster" if serving.upgrade == "surge" else "None"},
                    # It schedules; workers answer.
                    "excludeHeadPodFromServeSvc": True,
                    "rayClusterConfig": _ray_cluster(deployment, groups, access, app.http.port),
                },
            },
        )
        _disruption_budget(self, serving.namespace, sum(group.pods for group in groups))


def _ray_cluster(
    deployment: Deployment, groups: tuple[WorkerGroup, ...], access: ModelAccess, serve_port: int
) -> Object:
    return {
        "rayVersion": _ray_version(deployment.serving.image),
        # The dashboard runs jobs for whoever reaches it: only with the token that the operator makes.
        "authOptions": {"mode": "token"},
        "headGroupSpec": head_group(deployment, serve_port),
        "workerGroupSpecs": [
            worker_group(
                group, tuple(other for other in groups if other is not group), deployment, access, serve_port
            )
            for group in groups
        ],
    }


def _ray_version(image: str) -> str:
    """Ray's version in the image, by its tag; an image of your own is built on the tested one."""
    tag = image.rpartition(":")[2]
    return container_versions(tag).ray if tag in known_container_tags() else versions().container.ray


def _disruption_budget(chart: Chart, namespace: str, workers: int) -> None:
    """One worker at a time: a node that is drained for an update waits until the last one is back.

    A number, not a share: Ray's pods have no owner with a scale. None for the head: with one, a system node could
    never be drained.
    """
    k8s.KubePodDisruptionBudget(
        chart,
        "DisruptionBudget",
        metadata=k8s.ObjectMeta(name="ray-workers", namespace=namespace, labels=labels("disruption-budget")),
        spec=k8s.PodDisruptionBudgetSpec(
            min_available=k8s.IntOrString.from_number(max(0, workers - 1)),
            # A pod that is not ready serves nobody: it must not hold up a drain.
            unhealthy_pod_eviction_policy="AlwaysAllow",
            selector=k8s.LabelSelector(match_labels={RAY_NODE_TYPE_LABEL: "worker"}),
        ),
    )
