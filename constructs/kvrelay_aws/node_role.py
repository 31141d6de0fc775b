"""The IAM role of a node: join the cluster, pull images, be reached by Session Manager; nothing else."""

from aws_cdk import aws_iam as iam
from constructs import Construct

from kvrelay_aws.acknowledgements import acknowledge, managed_policy

_POLICIES = {
    "AmazonEKSWorkerNodePolicy": "What EKS asks of a node; AWS keeps it in step with the kubelet.",
    "AmazonEC2ContainerRegistryPullOnly": "Pulls images and nothing else.",
    "AmazonSSMManagedInstanceCore": "A shell on a node without SSH keys or open ports.",
}


class NodeRole(Construct):
    """One node group's role; EKS adds its access entry itself."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in _POLICIES],
        )
        acknowledge(self, {managed_policy(name): reason for name, reason in _POLICIES.items()})
