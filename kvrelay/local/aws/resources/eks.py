"""EKS clusters, node groups, add-ons, access entries and pod identity associations."""

from __future__ import annotations

import secrets
from typing import Any

from kvrelay.local.aws.eks import access, addons, clusters, nodegroups
from kvrelay.local.aws.eks.state import Cluster
from kvrelay.local.aws.errors import AwsError, ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


def _camel(value: Any) -> Any:
    """Template properties in the spelling of EKS's API."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _camel(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_camel(item) for item in value]
    return value


def _region(request: Request) -> Any:
    return request.account.eks(request.region)


def _changed(request: Request, *keys: str) -> bool:
    return any(request.previous.get(key) != request.properties.get(key) for key in keys)


def _is_missing(error: AwsError) -> bool:
    return error.code == "ResourceNotFoundException"


@handles
class EksCluster(Handler):
    """AWS::EKS::Cluster."""

    type = "AWS::EKS::Cluster"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        given: dict[str, Any] = _camel(
            {key: value for key, value in wanted.items() if key not in ("Tags", "Logging")}
        )
        given["name"] = wanted.get("Name") or request.name(100)
        given["tags"] = request.tags()
        given["logging"] = _logging(wanted)
        return self._made(clusters.create(_region(request), given))

    def update(self, request: Request) -> Made:
        region, name, wanted = _region(request), request.physical_id, request.properties
        for key, before in request.previous.items():
            known = (
                "Version",
                "ResourcesVpcConfig",
                "Logging",
                "AccessConfig",
                "Tags",
                "UpgradePolicy",
                "DeletionProtection",
            )
            if key not in known and wanted.get(key) != before:
                raise ResourceFailedError(f"AWS::EKS::Cluster: a change of {key} in place is not emulated")
        if _changed(request, "Version"):
            clusters.update_version(region, {"name": name, "version": wanted["Version"]})
        clusters.update_config(
            region,
            {
                "name": name,
                "resourcesVpcConfig": _camel(wanted["ResourcesVpcConfig"]),
                "logging": _logging(wanted),
                "accessConfig": _camel(wanted.get("AccessConfig")),
                "upgradePolicy": _camel(wanted.get("UpgradePolicy")),
                "deletionProtection": wanted.get("DeletionProtection", False),
            },
        )
        cluster = region.cluster(name)
        cluster.description["tags"] = request.tags()
        return self._made(cluster)

    def _made(self, cluster: Cluster) -> Made:
        about = cluster.description
        encryption = about["encryptionConfig"]
        return Made(
            cluster.name,
            {
                "Arn": about["arn"],
                "CertificateAuthorityData": about["certificateAuthority"]["data"],
                "ClusterSecurityGroupId": about["resourcesVpcConfig"]["clusterSecurityGroupId"],
                "EncryptionConfigKeyArn": encryption[0]["provider"]["keyArn"] if encryption else "",
                "Endpoint": about["endpoint"],
                "Id": cluster.name,
                "KubernetesNetworkConfig.ServiceIpv6Cidr": "",
                "OpenIdConnectIssuerUrl": about["identity"]["oidc"]["issuer"],
            },
        )

    def delete(self, request: Request) -> None:
        try:
            clusters.delete(_region(request), request.physical_id)
        except AwsError as error:
            if not _is_missing(error):
                raise


def _logging(wanted: dict[str, Any]) -> dict[str, Any] | None:
    enabled = ((wanted.get("Logging") or {}).get("ClusterLogging") or {}).get("EnabledTypes")
    if enabled is None:
        return None
    return {"clusterLogging": [{"types": [row["Type"] for row in enabled], "enabled": True}]}


@handles
class Nodegroup(Handler):
    """AWS::EKS::Nodegroup."""

    type = "AWS::EKS::Nodegroup"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        given = {k: _camel(v) for k, v in wanted.items() if k not in ("Tags", "Labels", "ForceUpdateEnabled")}
        given = {key[:1].lower() + key[1:]: value for key, value in given.items()}
        given["nodegroupName"] = (
            wanted.get("NodegroupName") or f"{request.logical_id}-{secrets.token_hex(6)}"[:63]
        )
        given["labels"] = wanted.get("Labels") or {}
        given["tags"] = request.tags()
        made = nodegroups.create(_region(request), given)
        return self._made(request, made)

    def update(self, request: Request) -> Made:
        region, wanted = _region(request), request.properties
        cluster, name = request.physical_id.split("/")
        names = {"clusterName": cluster, "nodegroupName": name}
        if _changed(request, "LaunchTemplate", "Version", "ReleaseVersion"):
            nodegroups.update_version(
                region,
                {
                    **names,
                    "launchTemplate": _camel(wanted.get("LaunchTemplate")),
                    "version": wanted.get("Version"),
                    "releaseVersion": wanted.get("ReleaseVersion"),
                },
            )
        labels, before = wanted.get("Labels") or {}, request.previous.get("Labels") or {}
        taints, old_taints = _camel(wanted.get("Taints") or []), _camel(request.previous.get("Taints") or [])
        nodegroups.update_config(
            region,
            {
                **names,
                "scalingConfig": _camel(wanted.get("ScalingConfig")),
                "labels": {
                    "addOrUpdateLabels": labels,
                    "removeLabels": [k for k in before if k not in labels],
                },
                "taints": {
                    "addOrUpdateTaints": taints,
                    "removeTaints": [taint for taint in old_taints if taint not in taints],
                },
                "updateConfig": _camel(wanted.get("UpdateConfig")),
            },
        )
        nodegroup = nodegroups.find(region, cluster, name)
        nodegroup["tags"] = request.tags()
        return self._made(request, nodegroup)

    def _made(self, request: Request, nodegroup: dict[str, Any]) -> Made:
        cluster, name = nodegroup["clusterName"], nodegroup["nodegroupName"]
        return Made(
            f"{cluster}/{name}",
            {
                "Arn": nodegroup["nodegroupArn"],
                "ClusterName": cluster,
                "Id": f"{cluster}/{name}",
                "NodegroupName": name,
            },
        )

    def delete(self, request: Request) -> None:
        cluster, name = request.physical_id.split("/")
        try:
            nodegroups.delete(_region(request), cluster, name)
        except AwsError as error:
            if not _is_missing(error):
                raise

    def replaces(self, before: dict[str, Any], after: dict[str, Any]) -> set[str]:
        """Another launch template, unlike another version of it, needs another node group."""
        old, new = before.get("LaunchTemplate") or {}, after.get("LaunchTemplate") or {}
        differs = (old.get("Id"), old.get("Name")) != (new.get("Id"), new.get("Name"))
        return {"LaunchTemplate"} if differs else set()


@handles
class Addon(Handler):
    """AWS::EKS::Addon."""

    type = "AWS::EKS::Addon"

    def create(self, request: Request) -> Made:
        given = {
            **_camel({k: v for k, v in request.properties.items() if k != "Tags"}),
            "tags": request.tags(),
        }
        made = addons.create(_region(request), given)
        return Made(f"{made['clusterName']}|{made['addonName']}", {"Arn": made["addonArn"]})

    def update(self, request: Request) -> Made:
        cluster, name = request.physical_id.split("|")
        given = _camel({k: v for k, v in request.properties.items() if k != "Tags"})
        given.setdefault("podIdentityAssociations", [])
        addons.update(_region(request), {**given, "clusterName": cluster, "addonName": name})
        addons.find(_region(request), cluster, name)["tags"] = request.tags()
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        try:
            addons.delete(_region(request), *request.physical_id.split("|"))
        except AwsError as error:
            if not _is_missing(error):
                raise


@handles
class AccessEntry(Handler):
    """AWS::EKS::AccessEntry."""

    type = "AWS::EKS::AccessEntry"

    def create(self, request: Request) -> Made:
        given = _camel({k: v for k, v in request.properties.items() if k not in ("Tags", "AccessPolicies")})
        made = access.create_entry(_region(request), {**given, "tags": request.tags()})
        self._policies(request)
        return Made(
            f"{made['principalArn']}|{made['clusterName']}", {"AccessEntryArn": made["accessEntryArn"]}
        )

    def update(self, request: Request) -> Made:
        given = _camel({k: v for k, v in request.properties.items() if k not in ("Tags", "AccessPolicies")})
        found = access.update_entry(_region(request), given)
        found["tags"] = request.tags()
        self._policies(request)
        return Made(request.physical_id, request.attributes)

    def _policies(self, request: Request) -> None:
        names = {
            "clusterName": request.properties["ClusterName"],
            "principalArn": request.properties["PrincipalArn"],
        }
        wanted = _camel(request.properties.get("AccessPolicies") or [])
        for before in _camel(request.previous.get("AccessPolicies") or []):
            if before not in wanted:
                access.disassociate_policy(_region(request), {**names, "policyArn": before["policyArn"]})
        for policy in wanted:
            access.associate_policy(_region(request), {**names, **policy})

    def delete(self, request: Request) -> None:
        principal, cluster = request.physical_id.split("|")
        try:
            access.delete_entry(_region(request), cluster, principal)
        except AwsError as error:
            if not _is_missing(error):
                raise


@handles
class PodIdentityAssociation(Handler):
    """AWS::EKS::PodIdentityAssociation."""

    type = "AWS::EKS::PodIdentityAssociation"

    def create(self, request: Request) -> Made:
        given = _camel({k: v for k, v in request.properties.items() if k != "Tags"})
        made = access.create_pod_identity(_region(request), {**given, "tags": request.tags()})
        return Made(
            made["associationArn"],
            {
                "AssociationArn": made["associationArn"],
                "AssociationId": made["associationId"],
                "ExternalId": "",
            },
        )

    def update(self, request: Request) -> Made:
        identifier = request.attributes["AssociationId"]
        found = access.pod_identity(_region(request), request.properties["ClusterName"], identifier)
        found |= {"roleArn": request.properties["RoleArn"], "tags": request.tags()}
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        region = _region(request)
        cluster = region.clusters.get(request.properties["ClusterName"])
        if cluster:
            cluster.pod_identities.pop(request.attributes["AssociationId"], None)
