"""The cluster: control plane, add-ons, system nodes and GPU nodes; the slow, stateful part."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_aws.eks_cluster import EksCluster
from stacks.deployment_stack import DeploymentStack


class ClusterStack(DeploymentStack):
    """One EKS cluster with everything that must run before a model can be served."""

    def __init__(
        self, scope: Construct, id: str, *, deployment: Deployment, vpc: ec2.IVpc, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, deployment=deployment, description="kvrelay: EKS cluster and its nodes", env=env
        )
        eks = EksCluster(self, "Eks", name=deployment.name, settings=deployment.cluster, vpc=vpc)
        self.cluster = eks.cluster
        self.output("ClusterName", self.cluster.cluster_name, "The EKS cluster")
