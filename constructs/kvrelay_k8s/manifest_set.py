"""Every Kubernetes object of a deployment, in sets that are applied in order: one list for stacks, files and tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cdk8s import App, Chart

from kvrelay.serve_app import ServeApp
from kvrelay.settings import Deployment, ImageMirror
from kvrelay_k8s.efa_device_plugin import EfaDevicePlugin
from kvrelay_k8s.kuberay_crds import KubeRayCrds
from kvrelay_k8s.kuberay_operator import KubeRayOperator
from kvrelay_k8s.mirrored_images import with_mirrored_images
from kvrelay_k8s.namespaces import Namespaces
from kvrelay_k8s.network_policies import NetworkPolicies
from kvrelay_k8s.nvidia_device_plugin import NvidiaDevicePlugin
from kvrelay_k8s.quota import Quota
from kvrelay_k8s.ray_service import RayService
from kvrelay_k8s.worker_scripts import WorkerScripts


@dataclass(frozen=True)
class ManifestSet:
    """One chart's objects. Create it after those it depends on; delete it before them."""

    name: str
    objects: tuple[dict[str, Any], ...]
    depends_on: tuple[str, ...]


def charts(deployment: Deployment, app: ServeApp) -> list[ManifestSet]:
    """The deployment's objects, in an order in which each set's dependencies stand before it.

    The same input gives the same objects. Raises InvalidFileError when the app does not fit the nodes.
    """
    # Deleting the namespace first, or the operator before the RayService's finalizer ran, leaves both
    # Terminating (kuberay #3388, #4767): what must outlive the RayService is what it depends on.
    table: list[tuple[str, Callable[[App, str], Chart], tuple[str, ...]]] = [
        ("namespaces", lambda cdk8s, id: Namespaces(cdk8s, id, deployment=deployment), ()),
        ("kuberay-crds", lambda cdk8s, id: KubeRayCrds(cdk8s, id), ()),
        ("nvidia-device-plugin", lambda cdk8s, id: NvidiaDevicePlugin(cdk8s, id), ()),
        ("efa-device-plugin", lambda cdk8s, id: EfaDevicePlugin(cdk8s, id, region=deployment.region), ()),
        (
            "network-policies",
            lambda cdk8s, id: NetworkPolicies(cdk8s, id, deployment=deployment, serve_port=app.http.port),
            ("namespaces",),
        ),
        ("quota", lambda cdk8s, id: Quota(cdk8s, id, deployment=deployment), ("namespaces",)),
        (
            "worker-scripts",
            lambda cdk8s, id: WorkerScripts(cdk8s, id, deployment=deployment),
            ("namespaces",),
        ),
        (
            "kuberay-operator",
            lambda cdk8s, id: KubeRayOperator(cdk8s, id, deployment=deployment),
            ("namespaces", "kuberay-crds", "network-policies"),
        ),
        (
            "ray-service",
            lambda cdk8s, id: RayService(cdk8s, id, deployment=deployment, app=app),
            ("kuberay-operator", "quota", "worker-scripts", "nvidia-device-plugin", "efa-device-plugin"),
        ),
    ]
    cdk8s = App()
    mirror = ImageMirror.of(deployment)
    return [
        ManifestSet(name, tuple(with_mirrored_images(make(cdk8s, name).to_json(), mirror)), depends_on)
        for name, make, depends_on in table
    ]
