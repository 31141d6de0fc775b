"""What EKS offers: the Kubernetes version, the add-ons at their pinned versions, the nodes' image."""

from __future__ import annotations

from collections.abc import Iterator

from kvrelay.data import versions
from kvrelay.ops.preflight.rows import Row, Status, Subject

_NEWER = "move kubernetes and eks_addons in container/pins.yaml together"


class EksVersions:
    """The version and its add-ons."""

    name = "eks"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for Kubernetes and one for each add-on."""
        wanted = subject.source.deployment.cluster.kubernetes_version
        offered = {
            addon["addonName"]: [version["addonVersion"] for version in addon["addonVersions"]]
            for addon in subject.aws.pages(
                "eks", "describe_addon_versions", "addons", kubernetesVersion=wanted
            )
        }
        if not offered:
            yield Row(self.name, f"Kubernetes {wanted}", Status.FAIL, "EKS does not offer it here", _NEWER)
            return
        yield Row(self.name, f"Kubernetes {wanted}", Status.PASS, f"offered with {len(offered)} add-ons")
        for name, pinned in versions().eks_addons.items():
            if pinned in offered.get(name, ()):
                yield Row(self.name, name, Status.PASS, pinned)
            else:
                newest = ", ".join(offered.get(name, ())[:3]) or "none"
                yield Row(self.name, name, Status.FAIL, f"{pinned} is not offered; offered: {newest}", _NEWER)


class NodeImages:
    """The AL2023 image with NVIDIA's driver that GPU nodes start from."""

    name = "node image"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """One row."""
        version = subject.source.deployment.cluster.kubernetes_version
        client = subject.aws.client("ssm")
        path = (
            f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/nvidia/recommended/image_id"
        )
        try:
            image = client.get_parameter(Name=path)["Parameter"]["Value"]
        except client.exceptions.ParameterNotFound:
            yield Row(self.name, f"AL2023 NVIDIA, {version}", Status.FAIL, "AWS publishes none here", _NEWER)
            return
        yield Row(self.name, f"AL2023 NVIDIA, {version}", Status.PASS, image)
