"""EKS add-ons at pinned versions, in the order in which nodes need them."""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from kvrelay.data import versions
from kvrelay_aws.acknowledgements import acknowledge, managed_policy

# What a node needs to become ready, and so must exist before it.
BEFORE_NODES = ("eks-pod-identity-agent", "vpc-cni", "kube-proxy")
# Deployments, which stay degraded until a node can run them.
ON_SYSTEM_NODES = ("coredns", "metrics-server")

# Without it the VPC CNI accepts network policies and enforces none.
# https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html
_CONFIGURATION: dict[str, dict[str, Any]] = {"vpc-cni": {"enableNetworkPolicy": "true"}}


class AddOns(Construct):
    """The add-ons named, at the versions of container/pins.yaml."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        names: Sequence[str],
        after: IDependable | None = None,
    ) -> None:
        super().__init__(scope, id)
        for name in names:
            settings = _CONFIGURATION.get(name)
            eks.CfnAddon(
                self,
                name,
                cluster_name=cluster.cluster_name,
                addon_name=name,
                addon_version=versions().eks_addons[name],
                resolve_conflicts="OVERWRITE",
                configuration_values=cdk.Stack.of(self).to_json_string(settings) if settings else None,
                pod_identity_associations=self._identities(name),
            )
        if after:
            self.node.add_dependency(after)

    def _identities(self, add_on: str) -> list[eks.CfnAddon.PodIdentityAssociationProperty] | None:
        """The VPC CNI gets its permissions by pod identity, so that nodes, and pods on them, have none."""
        if add_on != "vpc-cni":
            return None
        role = iam.Role(
            self,
            "VpcCniRole",
            assumed_by=pod_identity_principal(),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKS_CNI_Policy")],
        )
        acknowledge(
            role, {managed_policy("AmazonEKS_CNI_Policy"): "What the VPC CNI's documentation asks for."}
        )
        return [
            eks.CfnAddon.PodIdentityAssociationProperty(service_account="aws-node", role_arn=role.role_arn)
        ]


def pod_identity_principal() -> iam.IPrincipal:
    """Who assumes a role on a pod's behalf. Sessions carry tags, so that policies may name pods."""
    return iam.SessionTagsPrincipal(iam.ServicePrincipal("pods.eks.amazonaws.com"))
