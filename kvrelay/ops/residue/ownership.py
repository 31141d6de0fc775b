"""Whose a resource is: told by tags first, by name only where no tag says otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvrelay.ops.deploy import STACKS
from kvrelay.settings.scheduling import DEPLOYMENT_TAG

# EKS and its controllers tag what they make with the cluster's name, which is the deployment's.
_CLUSTER_TAGS = (
    "aws:eks:cluster-name",
    "eks:cluster-name",
    "elbv2.k8s.aws/cluster",
    "cluster.k8s.amazonaws.com/name",
    "KubernetesCluster",
)


class Owner:
    """One deployment, and what counts as its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        # CDK appends a logical id, which begins with a capital; a deployment's name has none. So the names of a
        # deployment called `kvrelay-cluster` never pass for those of `kvrelay`.
        self._generated = re.compile(rf"(^|/){re.escape(name)}-({'|'.join(STACKS)})-[A-Z]")

    @property
    def stacks(self) -> tuple[str, ...]:
        """Its stacks' names."""
        return tuple(f"{self.name}-{stack}" for stack in STACKS)

    def owns(self, tags: Mapping[str, str], name: str = "") -> bool:
        """Whether a resource with these tags and this name is the deployment's."""
        if DEPLOYMENT_TAG in tags:
            return tags[DEPLOYMENT_TAG] == self.name
        named = [tags[key] for key in _CLUSTER_TAGS if key in tags]
        if named:
            return self.name in named
        shared = [key for key in tags if key.startswith("kubernetes.io/cluster/")]
        if shared:
            # Several clusters may share it: then it is nobody's leftover.
            return shared == [f"kubernetes.io/cluster/{self.name}"]
        return bool(self._generated.search(name)) or name.startswith(f"/aws/eks/{self.name}/")


def tags_of(rows: Iterable[Mapping[str, Any]] | None) -> dict[str, str]:
    """AWS's lists of Key and Value as a mapping."""
    return {
        str(row.get("Key") or row.get("TagKey")): str(row.get("Value") or row.get("TagValue") or "")
        for row in rows or ()
    }
