"""The EKS clusters of one region and what belongs to them."""

from __future__ import annotations

import base64
import secrets
import shutil
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvrelay.local.aws.eks.kubernetes_api import FakeKubernetes
from kvrelay.local.aws.errors import AwsError

if TYPE_CHECKING:
    from kvrelay.local.aws.account import Account

Description = dict[str, Any]


@dataclass
class Cluster:
    """One cluster: what EKS says of it, what is attached to it, and its Kubernetes API."""

    description: Description
    interfaces: list[str] = field(default_factory=list)
    nodegroups: dict[str, Description] = field(default_factory=dict)
    instances: dict[str, list[str]] = field(default_factory=dict)
    addons: dict[str, Description] = field(default_factory=dict)
    access_entries: dict[str, Description] = field(default_factory=dict)
    access_policies: dict[str, list[Description]] = field(default_factory=dict)
    pod_identities: dict[str, Description] = field(default_factory=dict)
    updates: dict[str, Description] = field(default_factory=dict)
    token: str = ""
    kubernetes: FakeKubernetes | None = None

    @property
    def name(self) -> str:
        """The cluster's name."""
        return str(self.description["name"])

    def updated(self, kind: str) -> Description:
        """Notes an update that is done."""
        update: Description = {
            "id": str(uuid.uuid4()),
            "status": "Successful",
            "type": kind,
            "params": [],
            "createdAt": now(),
            "errors": [],
        }
        self.updates[update["id"]] = update
        return update


def now() -> datetime:
    """The time, for EKS's timestamps."""
    return datetime.now(UTC)


def missing(message: str) -> AwsError:
    """EKS's answer for what isn't there."""
    return AwsError("ResourceNotFoundException", message)


class EksRegion:
    """The clusters of one region."""

    def __init__(self, account: Account, region: str) -> None:
        self.account = account
        self.region = region
        self.clusters: dict[str, Cluster] = {}

    @property
    def ec2(self) -> Any:
        """EC2 in the region."""
        return self.account.client("ec2", self.region)

    def cluster(self, name: str) -> Cluster:
        """A cluster by name."""
        if name not in self.clusters:
            raise missing(f"No cluster found for name: {name}.")
        return self.clusters[name]

    def kubernetes_token(self, name: str) -> str:
        """What `aws eks get-token` gives for a cluster."""
        return self.cluster(name).token

    def attach_kubernetes(self, cluster: Cluster) -> None:
        """Points the cluster to the Kubernetes that was handed in, or to one of its own."""
        given = self.account.kubernetes
        if given:
            cluster.token, endpoint, authority = given.token, given.url, given.ca_pem
        else:
            cluster.token = f"k8s-aws-v1.{secrets.token_urlsafe(24)}"
            folder = Path(self.account.work_folder) / f"eks-{uuid.uuid4().hex[:8]}"
            folder.mkdir(mode=0o700)
            cluster.kubernetes = FakeKubernetes(folder, cluster.token)
            shutil.rmtree(folder)
            endpoint, authority = cluster.kubernetes.url, cluster.kubernetes.ca_pem
        cluster.description["endpoint"] = endpoint
        cluster.description["certificateAuthority"] = {"data": base64.b64encode(authority.encode()).decode()}

    def stop(self) -> None:
        """Ends every cluster's API server."""
        for cluster in self.clusters.values():
            if cluster.kubernetes:
                cluster.kubernetes.stop()
