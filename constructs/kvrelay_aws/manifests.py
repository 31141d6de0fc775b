"""Sets of Kubernetes objects, applied through the cluster's kubectl handler in the order they depend on each other."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_eks_v2 as eks
from constructs import Construct

from kvrelay_k8s import ManifestSet


class Manifests(Construct):
    """One custom resource a set. It applies and returns: the handler has 15 minutes, a model takes longer."""

    def __init__(
        self, scope: Construct, id: str, *, cluster: eks.ICluster, sets: Sequence[ManifestSet]
    ) -> None:
        super().__init__(scope, id)
        made: dict[str, eks.KubernetesManifest] = {}
        for each in sets:
            # Overwrite: what a failed deployment left behind is taken over, not in the way.
            manifest = eks.KubernetesManifest(
                self, each.name, cluster=cluster, overwrite=True, manifest=list(each.objects)
            )
            for name in each.depends_on:
                manifest.node.add_dependency(made[name])
            made[each.name] = manifest
