"""EKS's API operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.eks import access, addons, clusters, nodegroups
from kvrelay.local.aws.eks.state import missing

Values = dict[str, Any]


class EksApi:
    """The operations, in one region."""

    def __init__(self, account: Account, region: str) -> None:
        self._account = account
        self._region = account.eks(region)

    def operation(self, name: str) -> Callable[[Values], Values] | None:
        """The function for an operation's name, run alone; None when it isn't emulated."""
        found = self._operations().get(name)
        if found is None:
            return None

        def alone(given: Values) -> Values:
            with self._account.lock:
                return found(given)

        return alone

    def _operations(self) -> dict[str, Callable[[Values], Values]]:
        region = self._region

        def cluster(given: Values) -> Any:
            return region.cluster(given.get("clusterName") or given["name"])

        def delete_entry(given: Values) -> Values:
            access.delete_entry(region, given["clusterName"], given["principalArn"])
            return {}

        def disassociate(given: Values) -> Values:
            access.disassociate_policy(region, given)
            return {}

        def delete_identity(given: Values) -> Values:
            found = access.pod_identity(region, given["clusterName"], given["associationId"])
            del cluster(given).pod_identities[given["associationId"]]
            return {"association": found}

        def update_identity(given: Values) -> Values:
            found = access.pod_identity(region, given["clusterName"], given["associationId"])
            if given.get("roleArn"):
                found["roleArn"] = given["roleArn"]
            return {"association": found}

        return {
            "CreateCluster": lambda g: {"cluster": clusters.create(region, g).description},
            "DescribeCluster": lambda g: {"cluster": cluster(g).description},
            "ListClusters": lambda g: {"clusters": sorted(region.clusters)},
            "UpdateClusterConfig": lambda g: {"update": clusters.update_config(region, g)},
            "UpdateClusterVersion": lambda g: {"update": clusters.update_version(region, g)},
            "DeleteCluster": lambda g: {"cluster": clusters.delete(region, g["name"]).description},
            "DescribeUpdate": lambda g: {"update": cluster(g).updates[g["updateId"]]},
            "CreateNodegroup": lambda g: {"nodegroup": nodegroups.create(region, g)},
            "DescribeNodegroup": lambda g: {
                "nodegroup": nodegroups.find(region, g["clusterName"], g["nodegroupName"])
            },
            "ListNodegroups": lambda g: {"nodegroups": sorted(cluster(g).nodegroups)},
            "UpdateNodegroupConfig": lambda g: {"update": nodegroups.update_config(region, g)},
            "UpdateNodegroupVersion": lambda g: {"update": nodegroups.update_version(region, g)},
            "DeleteNodegroup": lambda g: {
                "nodegroup": nodegroups.delete(region, g["clusterName"], g["nodegroupName"])
            },
            "CreateAddon": lambda g: {"addon": addons.create(region, g)},
            "DescribeAddon": lambda g: {"addon": addons.find(region, g["clusterName"], g["addonName"])},
            "DescribeAddonVersions": lambda g: {"addons": addons.versions(g)},
            "ListAddons": lambda g: {"addons": sorted(cluster(g).addons)},
            "UpdateAddon": lambda g: {"update": addons.update(region, g)},
            "DeleteAddon": lambda g: {"addon": addons.delete(region, g["clusterName"], g["addonName"])},
            "CreateAccessEntry": lambda g: {"accessEntry": access.create_entry(region, g)},
            "DescribeAccessEntry": lambda g: {
                "accessEntry": access.entry(region, g["clusterName"], g["principalArn"])
            },
            "ListAccessEntries": lambda g: {"accessEntries": sorted(cluster(g).access_entries)},
            "UpdateAccessEntry": lambda g: {"accessEntry": access.update_entry(region, g)},
            "DeleteAccessEntry": delete_entry,
            "AssociateAccessPolicy": lambda g: {
                "clusterName": g["clusterName"],
                "principalArn": g["principalArn"],
                "associatedAccessPolicy": access.associate_policy(region, g),
            },
            "DisassociateAccessPolicy": disassociate,
            "ListAssociatedAccessPolicies": lambda g: {
                "clusterName": g["clusterName"],
                "principalArn": g["principalArn"],
                "associatedAccessPolicies": cluster(g).access_policies.get(g["principalArn"], []),
            },
            "CreatePodIdentityAssociation": lambda g: {"association": access.create_pod_identity(region, g)},
            "DescribePodIdentityAssociation": lambda g: {
                "association": access.pod_identity(region, g["clusterName"], g["associationId"])
            },
            "ListPodIdentityAssociations": lambda g: {
                "associations": [
                    each
                    for each in cluster(g).pod_identities.values()
                    if all(g.get(key) in (None, each[key]) for key in ("namespace", "serviceAccount"))
                ]
            },
            "UpdatePodIdentityAssociation": update_identity,
            "DeletePodIdentityAssociation": delete_identity,
            "TagResource": lambda g: self._tag(g["resourceArn"], g["tags"], []),
            "UntagResource": lambda g: self._tag(g["resourceArn"], {}, g["tagKeys"]),
            "ListTagsForResource": lambda g: {"tags": self._tags(g["resourceArn"])},
        }

    def _tag(self, arn: str, fresh: dict[str, str], gone: list[str]) -> Values:
        tags = self._tags(arn)
        tags |= fresh
        for key in gone:
            tags.pop(key, None)
        return {}

    def _tags(self, arn: str) -> dict[str, str]:
        for found in self._region.clusters.values():
            for description in (
                found.description,
                *found.nodegroups.values(),
                *found.addons.values(),
                *found.access_entries.values(),
                *found.pod_identities.values(),
            ):
                if arn in (value for key, value in description.items() if key.lower().endswith("arn")):
                    tags: dict[str, str] = description["tags"]
                    return tags
        raise missing(f"The requested resource {arn} was not found")
