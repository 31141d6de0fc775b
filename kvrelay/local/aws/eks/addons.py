"""EKS add-ons."""

from __future__ import annotations

import re
import secrets
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.eks import checks, clusters
from kvrelay.local.aws.eks.state import EksRegion, missing, now
from kvrelay.local.aws.errors import AwsError

# The add-ons that EKS offers without a marketplace, and a version of each to default to.
CATALOG = {
    "amazon-cloudwatch-observability": "v4.5.0-eksbuild.1",
    "aws-ebs-csi-driver": "v1.52.0-eksbuild.1",
    "aws-efs-csi-driver": "v2.1.13-eksbuild.1",
    "aws-fsx-csi-driver": "v1.7.0-eksbuild.1",
    "aws-mountpoint-s3-csi-driver": "v2.1.0-eksbuild.1",
    "cert-manager": "v1.19.1-eksbuild.1",
    "coredns": "v1.14.3-eksbuild.23",
    "eks-node-monitoring-agent": "v1.4.1-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.10-eksbuild.3",
    "kube-proxy": "v1.36.0-eksbuild.25",
    "kube-state-metrics": "v2.17.0-eksbuild.4",
    "metrics-server": "v0.9.0-eksbuild.11",
    "prometheus-node-exporter": "v1.10.2-eksbuild.3",
    "snapshot-controller": "v8.3.0-eksbuild.1",
    "vpc-cni": "v1.22.4-eksbuild.3",
}
_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+$")


def create(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Installs an add-on."""
    cluster, name = region.cluster(given["clusterName"]), given["addonName"]
    if name in cluster.addons:
        raise AwsError("ResourceInUseException", f"Addon already exists.: {name}")
    version = _version(name, given.get("addonVersion"))
    if given.get("serviceAccountRoleArn"):
        checks.role(region, given["serviceAccountRoleArn"], "")
    addon = {
        "addonName": name,
        "clusterName": cluster.name,
        "status": "ACTIVE",
        "addonVersion": version,
        "health": {"issues": []},
        "addonArn": f"arn:{PARTITION}:eks:{region.region}:{ACCOUNT_ID}:addon/{cluster.name}/{name}/"
        f"{secrets.token_hex(8)}",
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": given.get("tags") or {},
        **{k: given[k] for k in ("serviceAccountRoleArn", "configurationValues") if given.get(k)},
    }
    cluster.addons[name] = addon
    _associate(region, addon, given.get("podIdentityAssociations") or [])
    return addon


def _associate(region: EksRegion, addon: dict[str, Any], wanted: list[dict[str, Any]]) -> None:
    from kvrelay.local.aws.eks import access

    cluster = region.cluster(addon["clusterName"])
    for arn in addon.get("podIdentityAssociations", ()):
        cluster.pod_identities.pop(arn.rsplit("/", 1)[1], None)
    addon["podIdentityAssociations"] = []
    for given in wanted:
        made = access.create_pod_identity(
            region, {**given, "clusterName": cluster.name, "namespace": "kube-system"}
        )
        made["ownerArn"] = addon["addonArn"]
        addon["podIdentityAssociations"].append(made["associationArn"])


def _version(name: str, version: str | None) -> str:
    if name not in CATALOG:
        raise checks.invalid(f"Addon {name} specified is not supported")
    if version and not _VERSION.match(version):
        raise checks.invalid(f"Addon version specified is not supported, Please check the version {version}")
    return version or CATALOG[name]


def find(region: EksRegion, cluster_name: str, name: str) -> dict[str, Any]:
    """An add-on by name."""
    found = region.cluster(cluster_name).addons.get(name)
    if found is None:
        raise missing(f"No addon: {name} found in cluster: {cluster_name}")
    return found


def update(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Changes an add-on's version or configuration."""
    addon = find(region, given["clusterName"], given["addonName"])
    if given.get("addonVersion"):
        addon["addonVersion"] = _version(addon["addonName"], given["addonVersion"])
    for key in ("serviceAccountRoleArn", "configurationValues"):
        if given.get(key) is not None:
            addon[key] = given[key]
    if given.get("podIdentityAssociations") is not None:
        _associate(region, addon, given["podIdentityAssociations"])
    addon["modifiedAt"] = now()
    return region.cluster(given["clusterName"]).updated("AddonUpdate")


def delete(region: EksRegion, cluster_name: str, name: str) -> dict[str, Any]:
    """Removes an add-on."""
    addon = find(region, cluster_name, name)
    _associate(region, addon, [])
    del region.cluster(cluster_name).addons[name]
    return addon


def versions(given: dict[str, Any]) -> list[dict[str, Any]]:
    """What DescribeAddonVersions lists."""
    wanted = given.get("addonName")
    if wanted and wanted not in CATALOG:
        raise missing(f"Addon {wanted} specified is not supported")
    kubernetes = [given["kubernetesVersion"]] if given.get("kubernetesVersion") else list(clusters.VERSIONS)
    return [
        {
            "addonName": name,
            "type": "networking",
            "owner": "aws",
            "publisher": "eks",
            "addonVersions": [
                {
                    "addonVersion": version,
                    "architecture": ["amd64", "arm64"],
                    "compatibilities": [
                        {"clusterVersion": v, "platformVersions": ["*"], "defaultVersion": True}
                        for v in kubernetes
                    ],
                }
            ],
        }
        for name, version in CATALOG.items()
        if wanted in (None, name)
    ]
