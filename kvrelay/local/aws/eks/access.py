"""Who may use a cluster: access entries, their policies, and pod identity associations."""

from __future__ import annotations

import secrets
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.eks import checks
from kvrelay.local.aws.eks.state import EksRegion, missing, now
from kvrelay.local.aws.errors import AwsError


def create_entry(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Lets an IAM principal in."""
    cluster, principal = region.cluster(given["clusterName"]), given["principalArn"]
    if cluster.description["accessConfig"]["authenticationMode"] == "CONFIG_MAP":
        raise AwsError(
            "InvalidRequestException",
            "The cluster's authentication mode must be set to one of "
            "[API, API_AND_CONFIG_MAP] to perform this operation.",
        )
    if principal in cluster.access_entries:
        raise AwsError(
            "ResourceInUseException", "The specified access entry resource is already in use on this cluster."
        )
    kind, _, name = principal.split(":")[-1].partition("/")
    # Principals of other accounts, and those people name by hand, can't be looked up here.
    if kind == "role" and f":{ACCOUNT_ID}:" in principal:
        try:
            region.account.client("iam", region.region).get_role(RoleName=name.split("/")[-1])
        except ClientError as error:
            raise checks.invalid(
                f"The specified principalArn is invalid: invalid principal: {principal}"
            ) from error
    entry = {
        "clusterName": cluster.name,
        "principalArn": principal,
        "kubernetesGroups": given.get("kubernetesGroups") or [],
        "accessEntryArn": f"arn:{PARTITION}:eks:{region.region}:{ACCOUNT_ID}:access-entry/{cluster.name}/{kind}/"
        f"{ACCOUNT_ID}/{name}/{secrets.token_hex(8)}",
        "createdAt": now(),
        "modifiedAt": now(),
        "tags": given.get("tags") or {},
        "username": given.get("username") or principal,
        "type": given.get("type") or "STANDARD",
    }
    cluster.access_entries[principal] = entry
    cluster.access_policies[principal] = []
    return entry


def entry(region: EksRegion, cluster_name: str, principal: str) -> dict[str, Any]:
    """An access entry by principal."""
    found = region.cluster(cluster_name).access_entries.get(principal)
    if found is None:
        raise missing(f"The specified principalArn could not be found: {principal}.")
    return found


def update_entry(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Changes groups or user name."""
    found = entry(region, given["clusterName"], given["principalArn"])
    found |= {key: given[key] for key in ("kubernetesGroups", "username") if given.get(key) is not None}
    found["modifiedAt"] = now()
    return found


def delete_entry(region: EksRegion, cluster_name: str, principal: str) -> None:
    """Locks a principal out."""
    entry(region, cluster_name, principal)
    cluster = region.cluster(cluster_name)
    del cluster.access_entries[principal]
    cluster.access_policies.pop(principal, None)


def associate_policy(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Gives an entry one of EKS's policies, in the whole cluster or some namespaces."""
    entry(region, given["clusterName"], given["principalArn"])
    policies = region.cluster(given["clusterName"]).access_policies[given["principalArn"]]
    if not given["policyArn"].startswith(f"arn:{PARTITION}:eks::aws:cluster-access-policy/"):
        raise checks.invalid(f"The policyArn parameter format is not valid: {given['policyArn']}")
    row = {
        "policyArn": given["policyArn"],
        "accessScope": given["accessScope"],
        "associatedAt": now(),
        "modifiedAt": now(),
    }
    policies[:] = [p for p in policies if p["policyArn"] != given["policyArn"]] + [row]
    return row


def disassociate_policy(region: EksRegion, given: dict[str, Any]) -> None:
    """Takes a policy away."""
    entry(region, given["clusterName"], given["principalArn"])
    policies = region.cluster(given["clusterName"]).access_policies[given["principalArn"]]
    policies[:] = [p for p in policies if p["policyArn"] != given["policyArn"]]


def create_pod_identity(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """Gives a service account a role."""
    cluster = region.cluster(given["clusterName"])
    checks.role(region, given["roleArn"], "pods.eks.amazonaws.com")
    for other in cluster.pod_identities.values():
        same = (other["namespace"], other["serviceAccount"]) == (given["namespace"], given["serviceAccount"])
        if same:
            raise AwsError("ResourceInUseException", "Association already exists: " + other["associationId"])
    identifier = f"a-{secrets.token_hex(9)[:17]}"
    association = {
        "clusterName": cluster.name,
        "namespace": given["namespace"],
        "serviceAccount": given["serviceAccount"],
        "roleArn": given["roleArn"],
        "associationArn": f"arn:{PARTITION}:eks:{region.region}:{ACCOUNT_ID}:podidentityassociation/{cluster.name}/"
        f"{identifier}",
        "associationId": identifier,
        "tags": given.get("tags") or {},
        "createdAt": now(),
        "modifiedAt": now(),
    }
    cluster.pod_identities[identifier] = association
    return association


def pod_identity(region: EksRegion, cluster_name: str, identifier: str) -> dict[str, Any]:
    """An association by id."""
    found = region.cluster(cluster_name).pod_identities.get(identifier)
    if found is None:
        raise missing(f"Association {identifier} was not found in cluster {cluster_name}.")
    return found
