"""Clusters: create, describe, update, delete."""

from __future__ import annotations

import secrets
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.eks import checks
from kvrelay.local.aws.eks.state import Cluster, EksRegion, now
from kvrelay.local.aws.errors import AwsError

VERSIONS = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")


def create(region: EksRegion, given: dict[str, Any]) -> Cluster:
    """Makes a cluster with its security group, its interfaces in the subnets, and its Kubernetes API."""
    name, network = given["name"], given["resourcesVpcConfig"]
    if name in region.clusters:
        raise AwsError("ResourceInUseException", f"Cluster already exists with name: {name}")
    version = str(given.get("version") or VERSIONS[-1])
    if version not in VERSIONS:
        raise checks.invalid(f"unsupported Kubernetes version {version}")
    checks.role(region, given["roleArn"], "eks.amazonaws.com")
    subnets = checks.subnets(region, network.get("subnetIds") or [])
    if len({subnet["AvailabilityZone"] for subnet in subnets}) < 2:
        raise checks.invalid("Subnets specified must be in at least two different AZs")
    checks.groups(region, network.get("securityGroupIds") or [])
    for encryption in given.get("encryptionConfig") or ():
        checks.key(region, encryption["provider"]["keyArn"])
    if not network.get("endpointPublicAccess", True) and not network.get("endpointPrivateAccess", False):
        raise checks.invalid("Private and public endpoint access cannot be false")
    vpc, suffix = subnets[0]["VpcId"], str(secrets.randbelow(10**9)).zfill(9)
    group = _cluster_group(region, name, vpc, suffix)
    access = {"authenticationMode": "CONFIG_MAP", "bootstrapClusterCreatorAdminPermissions": True}
    access |= given.get("accessConfig") or {}
    cluster = Cluster(
        {
            "name": name,
            "arn": f"arn:{PARTITION}:eks:{region.region}:{ACCOUNT_ID}:cluster/{name}",
            "createdAt": now(),
            "version": version,
            "roleArn": given["roleArn"],
            "resourcesVpcConfig": {
                "subnetIds": network.get("subnetIds") or [],
                "securityGroupIds": network.get("securityGroupIds") or [],
                "clusterSecurityGroupId": group,
                "vpcId": vpc,
                "endpointPublicAccess": network.get("endpointPublicAccess", True),
                "endpointPrivateAccess": network.get("endpointPrivateAccess", False),
                "publicAccessCidrs": network.get("publicAccessCidrs") or ["0.0.0.0/0"],
            },
            "kubernetesNetworkConfig": {
                "serviceIpv4Cidr": "172.20.0.0/16",
                "ipFamily": "ipv4",
                "elasticLoadBalancing": {"enabled": False},
                **(given.get("kubernetesNetworkConfig") or {}),
            },
            "logging": given.get("logging") or {"clusterLogging": [{"types": _LOG_TYPES, "enabled": False}]},
            "identity": {
                "oidc": {
                    "issuer": f"https://oidc.eks.{region.region}.amazonaws.com/id/"
                    f"{secrets.token_hex(16).upper()}"
                }
            },
            "status": "ACTIVE",
            "platformVersion": "eks.1",
            "tags": given.get("tags") or {},
            "encryptionConfig": given.get("encryptionConfig") or [],
            "health": {"issues": []},
            "accessConfig": access,
            "upgradePolicy": given.get("upgradePolicy") or {"supportType": "EXTENDED"},
            "deletionProtection": bool(given.get("deletionProtection")),
        }
    )
    for subnet in subnets[:4]:
        made = region.ec2.create_network_interface(
            SubnetId=subnet["SubnetId"], Groups=[group], Description=f"Amazon EKS {name}"
        )
        cluster.interfaces.append(made["NetworkInterface"]["NetworkInterfaceId"])
    region.attach_kubernetes(cluster)
    region.clusters[name] = cluster
    return cluster


_LOG_TYPES = ["api", "audit", "authenticator", "controllerManager", "scheduler"]


def _cluster_group(region: EksRegion, name: str, vpc: str, suffix: str) -> str:
    group = str(
        region.ec2.create_security_group(
            GroupName=f"eks-cluster-sg-{name}-{suffix}",
            Description="EKS created security group applied to ENI that is attached to EKS Control Plane master "
            "nodes, as well as any managed workloads.",
            VpcId=vpc,
        )["GroupId"]
    )
    region.ec2.create_tags(
        Resources=[group],
        Tags=[
            {"Key": "aws-eks-cluster-name", "Value": name},
            {"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"},
        ],
    )
    region.ec2.authorize_security_group_ingress(
        GroupId=group, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    )
    return group


def update_config(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Changes networking, logging, access or deletion protection."""
    cluster = region.cluster(given["name"])
    network = given.get("resourcesVpcConfig")
    if network:
        if network.get("subnetIds"):
            checks.subnets(region, network["subnetIds"])
        checks.groups(region, network.get("securityGroupIds") or [])
        cluster.description["resourcesVpcConfig"] |= {k: v for k, v in network.items() if v is not None}
    for key in ("logging", "upgradePolicy", "deletionProtection"):
        if given.get(key) is not None:
            cluster.description[key] = given[key]
    if given.get("accessConfig"):
        cluster.description["accessConfig"] |= given["accessConfig"]
    return cluster.updated("EndpointAccessUpdate")


def update_version(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Moves a cluster to the next minor version; never back, never two at once."""
    cluster = region.cluster(given["name"])
    old, new = cluster.description["version"], str(given["version"])
    if new not in VERSIONS:
        raise checks.invalid(f"unsupported Kubernetes version {new}")
    if VERSIONS.index(new) != VERSIONS.index(old) + 1:
        raise checks.invalid(
            f"Unsupported Kubernetes minor version update from {old} to {new}"
            if VERSIONS.index(new) > VERSIONS.index(old)
            else f"Cluster version {new} is older than the current version {old}"
        )
    cluster.description["version"] = new
    return cluster.updated("VersionUpdate")


def delete(region: EksRegion, name: str) -> Cluster:
    """Removes a cluster that has no node groups, with its security group and interfaces."""
    cluster = region.cluster(name)
    if cluster.description["deletionProtection"]:
        raise AwsError(
            "InvalidRequestException", "Cannot delete cluster because deletion protection is enabled"
        )
    if cluster.nodegroups:
        raise AwsError("ResourceInUseException", "Cluster has nodegroups attached")
    for interface in cluster.interfaces:
        region.ec2.delete_network_interface(NetworkInterfaceId=interface)
    group = cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]
    region.ec2.delete_security_group(GroupId=group)
    if cluster.kubernetes:
        cluster.kubernetes.stop()
    del region.clusters[name]
    return cluster
