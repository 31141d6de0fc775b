"""The cluster: control plane, add-ons, system nodes and GPU nodes; the slow, stateful part."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_aws.add_ons import BEFORE_NODES, ON_SYSTEM_NODES, AddOns
from kvrelay_aws.eks_cluster import EksCluster
from kvrelay_aws.gpu_nodes import GpuNodeGroups
from kvrelay_aws.log_groups import log_group, log_handlers_to
from kvrelay_aws.system_nodes import SystemNodeGroup
from stacks.deployment_stack import DeploymentStack


class ClusterStack(DeploymentStack):
    """One EKS cluster with everything that must run before a model can be served."""

    def __init__(
        self, scope: Construct, id: str, *, deployment: Deployment, vpc: ec2.Vpc, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, deployment=deployment, description="kvrelay: EKS cluster and its nodes", env=env
        )
        gpu_subnet = vpc.private_subnets[deployment.zones.index(deployment.gpu_nodes.zone)]

        eks = EksCluster(self, "Eks", name=deployment.name, settings=deployment.cluster, vpc=vpc)
        self.cluster = eks.cluster
        node_add_ons = AddOns(self, "NodeAddOns", cluster=self.cluster, names=BEFORE_NODES)
        system_nodes = SystemNodeGroup(
            self,
            "SystemNodes",
            cluster=self.cluster,
            settings=deployment.system_nodes,
            subnet=gpu_subnet,
            after=node_add_ons,
            tags=deployment.all_tags,
        )
        AddOns(self, "SystemAddOns", cluster=self.cluster, names=ON_SYSTEM_NODES, after=system_nodes)
        GpuNodeGroups(
            self,
            "GpuNodes",
            cluster=self.cluster,
            settings=deployment.gpu_nodes,
            vpc=vpc,
            subnet=gpu_subnet,
            after=node_add_ons,
            tags=deployment.all_tags,
        )
        log_handlers_to(
            log_group(self, "HandlerLogs", retention_days=deployment.cluster.log_retention_days), self
        )

        self.output("ClusterName", self.cluster.cluster_name, "The EKS cluster")
        self.output(
            "ConfigureKubectl",
            f"aws eks update-kubeconfig --region {deployment.region} --name {deployment.name}",
            "Makes kubectl use this cluster",
        )
