"""Managed node groups, and the EC2 instances that they are."""

from __future__ import annotations

import secrets
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.eks import checks
from kvrelay.local.aws.eks.state import Cluster, EksRegion, missing, now
from kvrelay.local.aws.errors import AwsError

_IMAGE = "ami-12c6146b"


def create(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Makes a node group and starts its instances."""
    cluster, name = region.cluster(given["clusterName"]), given["nodegroupName"]
    if name in cluster.nodegroups:
        raise AwsError(
            "ResourceInUseException",
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
        )
    checks.role(region, given["nodeRole"], "ec2.amazonaws.com")
    checks.subnets(region, given["subnets"])
    template = checks.launch_template(region, given["launchTemplate"]) if given.get("launchTemplate") else {}
    _check_template(given, template)
    scaling = {"minSize": 1, "maxSize": 2, "desiredSize": 2, **(given.get("scalingConfig") or {})}
    _check_scaling(scaling)
    arn = (
        f"arn:{PARTITION}:eks:{region.region}:{ACCOUNT_ID}:nodegroup/{cluster.name}/{name}/"
        f"{secrets.token_hex(4)}-{secrets.token_hex(2)}"
    )
    nodegroup = {
        "nodegroupName": name,
        "nodegroupArn": arn,
        "clusterName": cluster.name,
        "version": given.get("version") or cluster.description["version"],
        "releaseVersion": given.get("releaseVersion") or f"{cluster.description['version']}.0-20261101",
        "createdAt": now(),
        "modifiedAt": now(),
        "status": "ACTIVE",
        "capacityType": given.get("capacityType") or "ON_DEMAND",
        "scalingConfig": scaling,
        "subnets": given["subnets"],
        "amiType": given.get("amiType") or "AL2023_x86_64_STANDARD",
        "nodeRole": given["nodeRole"],
        "labels": given.get("labels") or {},
        "taints": given.get("taints") or [],
        "resources": {"autoScalingGroups": [{"name": f"eks-{name}-{arn.rsplit('/', 1)[1]}"}]},
        "health": {"issues": []},
        "updateConfig": given.get("updateConfig") or {"maxUnavailable": 1},
        "tags": given.get("tags") or {},
    }
    if given.get("launchTemplate"):
        nodegroup["launchTemplate"] = _named_template(template)
        if given.get("instanceTypes"):
            nodegroup["instanceTypes"] = given["instanceTypes"]
    else:
        nodegroup["instanceTypes"] = given.get("instanceTypes") or ["t3.medium"]
        nodegroup["diskSize"] = given.get("diskSize") or 20
    cluster.nodegroups[name] = nodegroup
    cluster.instances[name] = []
    _scale(region, cluster, nodegroup, template)
    by_entries = cluster.description["accessConfig"]["authenticationMode"] != "CONFIG_MAP"
    if by_entries and given["nodeRole"] not in cluster.access_entries:
        # EKS lets a node group's role into the cluster by itself.
        from kvrelay.local.aws.eks import access

        access.create_entry(
            region, {"clusterName": cluster.name, "principalArn": given["nodeRole"], "type": "EC2_LINUX"}
        )
    return nodegroup


def _named_template(template: dict[str, Any]) -> dict[str, Any]:
    return {"id": template["_id"], "name": template["_name"], "version": template["_version"]}


def _check_template(given: dict[str, Any], template: dict[str, Any]) -> None:
    if template and given.get("diskSize"):
        raise checks.invalid("Disk size must be specified within the launch template.")
    if template.get("InstanceType") and given.get("instanceTypes"):
        raise checks.invalid("You cannot specify instance types in both the launch template and API request.")
    interfaces = template.get("NetworkInterfaces") or []
    if any("SubnetId" in interface for interface in interfaces):
        raise checks.invalid("Subnet IDs cannot be specified in the launch template's network interfaces.")
    if template.get("IamInstanceProfile"):
        raise checks.invalid("IAM instance profile cannot be specified in a launch template of a node group.")
    if interfaces and template.get("SecurityGroupIds"):
        raise checks.invalid("Security groups must be specified as part of network interface.")


def _check_scaling(scaling: dict[str, Any]) -> None:
    low, want, high = scaling["minSize"], scaling["desiredSize"], scaling["maxSize"]
    if low > want:
        raise checks.invalid(f"desired capacity {want} can't be less than min size {low}")
    if want > high:
        raise checks.invalid(f"desired capacity {want} can't be greater than max size {high}")


def _scale(region: EksRegion, cluster: Cluster, nodegroup: dict[str, Any], template: dict[str, Any]) -> None:
    instances = cluster.instances[nodegroup["nodegroupName"]]
    want = nodegroup["scalingConfig"]["desiredSize"]
    if len(instances) > want:
        _terminate(region, instances[want:])
        del instances[want:]
    for index in range(len(instances), want):
        subnet = nodegroup["subnets"][index % len(nodegroup["subnets"])]
        instances.append(_start(region, cluster, nodegroup, template, subnet))


def _start(
    region: EksRegion, cluster: Cluster, nodegroup: dict[str, Any], template: dict[str, Any], subnet: str
) -> str:
    interfaces = template.get("NetworkInterfaces") or []
    groups = [group for interface in interfaces for group in interface.get("Groups", ())]
    groups = (
        groups
        or template.get("SecurityGroupIds")
        or [cluster.description["resourcesVpcConfig"]["clusterSecurityGroupId"]]
    )
    checks.groups(region, groups)
    own = [s["Tags"] for s in template.get("TagSpecifications", ()) if s["ResourceType"] == "instance"]
    tags = {tag["Key"]: tag["Value"] for rows in own for tag in rows}
    tags |= {
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": nodegroup["nodegroupName"],
        f"kubernetes.io/cluster/{cluster.name}": "owned",
    }
    kind = template.get("InstanceType") or (nodegroup.get("instanceTypes") or ["t3.medium"])[0]
    made = region.ec2.run_instances(
        ImageId=template.get("ImageId") or _IMAGE,
        InstanceType=kind,
        MinCount=1,
        MaxCount=1,
        SubnetId=subnet,
        SecurityGroupIds=sorted(set(groups)),
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
        ],
    )
    return str(made["Instances"][0]["InstanceId"])


def _terminate(region: EksRegion, instances: list[str]) -> None:
    if not instances:
        return
    found = region.ec2.describe_network_interfaces(
        Filters=[{"Name": "attachment.instance-id", "Values": instances}]
    )["NetworkInterfaces"]
    region.ec2.terminate_instances(InstanceIds=instances)
    left = {i["NetworkInterfaceId"] for i in region.ec2.describe_network_interfaces()["NetworkInterfaces"]}
    for interface in found:
        if interface["NetworkInterfaceId"] in left:
            region.ec2.delete_network_interface(NetworkInterfaceId=interface["NetworkInterfaceId"])


def find(region: EksRegion, cluster_name: str, name: str) -> dict[str, Any]:
    """A node group by name."""
    cluster = region.cluster(cluster_name)
    if name not in cluster.nodegroups:
        raise missing(f"No node group found for name: {name}.")
    return cluster.nodegroups[name]


def update_config(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Changes size, labels, taints or update settings in place."""
    cluster = region.cluster(given["clusterName"])
    nodegroup = find(region, given["clusterName"], given["nodegroupName"])
    if given.get("scalingConfig"):
        scaling = {**nodegroup["scalingConfig"], **given["scalingConfig"]}
        _check_scaling(scaling)
        nodegroup["scalingConfig"] = scaling
    labels = given.get("labels") or {}
    for key in labels.get("removeLabels") or ():
        nodegroup["labels"].pop(key, None)
    nodegroup["labels"] |= labels.get("addOrUpdateLabels") or {}
    taints = given.get("taints") or {}
    gone = [taint["key"] for taint in taints.get("removeTaints") or ()]
    fresh = taints.get("addOrUpdateTaints") or []
    gone += [taint["key"] for taint in fresh]
    nodegroup["taints"] = [taint for taint in nodegroup["taints"] if taint["key"] not in gone] + fresh
    if given.get("updateConfig"):
        nodegroup["updateConfig"] = given["updateConfig"]
    nodegroup["modifiedAt"] = now()
    _scale(region, cluster, nodegroup, _template_of(region, nodegroup))
    return cluster.updated("ConfigUpdate")


def update_version(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Moves a node group to another release or launch template version: its nodes are replaced."""
    cluster = region.cluster(given["clusterName"])
    nodegroup = find(region, given["clusterName"], given["nodegroupName"])
    if given.get("launchTemplate"):
        if "launchTemplate" not in nodegroup:
            raise checks.invalid("A node group made without a launch template can't be given one.")
        template = checks.launch_template(region, given["launchTemplate"])
        if template["_id"] != nodegroup["launchTemplate"]["id"]:
            raise checks.invalid("You cannot change the launch template of a node group, only its version.")
        nodegroup["launchTemplate"] = _named_template(template)
    for key in ("version", "releaseVersion"):
        if given.get(key):
            nodegroup[key] = given[key]
    nodegroup["modifiedAt"] = now()
    old = cluster.instances[nodegroup["nodegroupName"]]
    cluster.instances[nodegroup["nodegroupName"]] = []
    _scale(region, cluster, nodegroup, _template_of(region, nodegroup))
    _terminate(region, old)
    return cluster.updated("VersionUpdate")


def _template_of(region: EksRegion, nodegroup: dict[str, Any]) -> dict[str, Any]:
    named = nodegroup.get("launchTemplate")
    return checks.launch_template(region, {"id": named["id"], "version": named["version"]}) if named else {}


def delete(region: EksRegion, cluster_name: str, name: str) -> dict[str, Any]:
    """Ends a node group and its instances."""
    nodegroup = find(region, cluster_name, name)
    cluster = region.cluster(cluster_name)
    _terminate(region, cluster.instances.pop(name, []))
    del cluster.nodegroups[name]
    return nodegroup
