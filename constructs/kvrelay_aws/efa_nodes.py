"""GPU nodes with EFA, in one zone."""

from collections.abc import Mapping

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from kvrelay.settings import Capacity, CapacityBlock, GpuNodeGroup, Spot
from kvrelay.settings.scheduling import (
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    GPU_WORKER_ROLE,
    NODE_GROUP_LABEL,
    ROLE_LABEL,
)
from kvrelay_aws.efa_launch_template import efa_launch_template
from kvrelay_aws.node_role import NodeRole


class EfaNodeGroup(Construct):
    """One EKS node group of GPU nodes, each with all EFA interfaces that its type has."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        settings: GpuNodeGroup,
        subnet: ec2.ISubnet,
        efa_security_group: ec2.ISecurityGroup,
        placement_group: ec2.CfnPlacementGroup | None,
        after: IDependable,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        template = efa_launch_template(
            self,
            settings=settings,
            # EKS adds the cluster's group by itself only where the template names no interfaces.
            security_group_ids=[efa_security_group.security_group_id, cluster.cluster_security_group_id],
            placement_group=placement_group,
            tags=tags,
        )
        self.node_group = eks.Nodegroup(
            self,
            "NodeGroup",
            cluster=cluster,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_NVIDIA,
            capacity_type=_capacity_type(settings.capacity),
            subnets=ec2.SubnetSelection(subnets=[subnet]),
            min_size=settings.count,
            desired_size=settings.count,
            max_size=settings.largest_count,
            max_unavailable=1,
            labels={ROLE_LABEL: GPU_WORKER_ROLE, NODE_GROUP_LABEL: settings.name},
            taints=[
                eks.TaintSpec(key=GPU_TAINT_KEY, value=GPU_TAINT_VALUE, effect=eks.TaintEffect.NO_SCHEDULE)
            ],
            node_role=NodeRole(self, "Role").role,
            launch_template_spec=eks.LaunchTemplateSpec(
                id=template.ref, version=template.attr_latest_version_number
            ),
        )
        self.node_group.node.add_dependency(after)
        resource = self.node_group.node.default_child
        if settings.largest_count == settings.count and isinstance(resource, eks.CfnNodegroup):
            # An update that starts new nodes first would wait for GPUs that nobody may have.
            resource.add_property_override("UpdateConfig.UpdateStrategy", "MINIMAL")


def _capacity_type(capacity: Capacity) -> eks.CapacityType:
    if isinstance(capacity, Spot):
        return eks.CapacityType.SPOT
    if isinstance(capacity, CapacityBlock):
        return eks.CapacityType.CAPACITY_BLOCK
    return eks.CapacityType.ON_DEMAND
