"""The EKS control plane: who may reach it, what it encrypts and logs, and how manifests get in."""

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_kms as kms
from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer
from constructs import Construct

from kvrelay.settings import Cluster
from kvrelay_aws.acknowledgements import acknowledge, acknowledge_kubectl_provider, managed_policy
from kvrelay_aws.log_groups import log_group

_KUBECTL_LAYERS = {"1.36": KubectlV36Layer}

_CLUSTER_FINDINGS = {managed_policy("AmazonEKSClusterPolicy"): "What EKS asks of its control plane."}


class EksCluster(Construct):
    """An EKS cluster without nodes or add-ons; `cluster` is CDK's own object."""

    def __init__(self, scope: Construct, id: str, *, name: str, settings: Cluster, vpc: ec2.IVpc) -> None:
        super().__init__(scope, id)
        private = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS)
        self.secrets_key = kms.Key(
            self,
            "SecretsKey",
            description=f"Kubernetes secrets of the cluster {name}",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.DESTROY,
            pending_window=cdk.Duration.days(7),
        )
        cluster = eks.Cluster(
            self,
            "Cluster",
            cluster_name=name,
            version=eks.KubernetesVersion.of(settings.kubernetes_version),
            vpc=vpc,
            vpc_subnets=[private],
            endpoint_access=_endpoint_access(settings),
            secrets_encryption_key=self.secrets_key,
            cluster_logging=list(eks.ClusterLoggingTypes),
            # CDK's default is auto mode, whose nodes have no EFA.
            default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
            default_capacity=0,
            # All add-ons are managed ones, with their versions pinned; see add_ons.py.
            bootstrap_self_managed_addons=False,
            bootstrap_cluster_creator_admin_permissions=False,
            output_config_command=False,
            kubectl_provider_options=eks.KubectlProviderOptions(
                kubectl_layer=_KUBECTL_LAYERS[settings.kubernetes_version](self, "Kubectl"),
                # The public endpoint is closed or restricted: manifests go in from inside the VPC.
                private_subnets=vpc.select_subnets(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS).subnets,
            ),
        )
        # jsii's types of Cluster lack one optional property of ICluster; the object has it.
        self.cluster = cast(eks.ICluster, cluster)
        acknowledge(cluster, _CLUSTER_FINDINGS)
        acknowledge_kubectl_provider(cluster.node.find_child("KubectlProvider"))
        self._log_group_first(name, settings)
        for arn in settings.admins:
            self._grant_admin(arn)

    def _log_group_first(self, name: str, settings: Cluster) -> None:
        """EKS would make the log group itself, without an end, and leave it behind."""
        group = log_group(
            self,
            "ControlPlaneLogs",
            name=f"/aws/eks/{name}/cluster",
            retention_days=settings.log_retention_days,
        )
        self.cluster.node.find_child("Resource").node.add_dependency(group)

    def _grant_admin(self, arn: str) -> None:
        eks.AccessEntry(
            self,
            f"Admin-{arn.partition('::')[2].replace('/', '-')}",
            cluster=self.cluster,
            principal=arn,
            access_policies=[
                eks.AccessPolicy.from_access_policy_name(
                    "AmazonEKSClusterAdminPolicy", access_scope_type=eks.AccessScopeType.CLUSTER
                )
            ],
        )


def _endpoint_access(settings: Cluster) -> eks.EndpointAccess:
    if not settings.public_access_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*settings.public_access_cidrs)
