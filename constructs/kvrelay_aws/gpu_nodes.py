"""All GPU nodes of a deployment: its node groups and what they share."""

from collections.abc import Mapping

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from kvrelay.settings import GpuNodes
from kvrelay_aws.efa_nodes import EfaNodeGroup
from kvrelay_aws.efa_security_group import EfaSecurityGroup


class GpuNodeGroups(Construct):
    """One node group, or one for each role; all in one zone, since EFA does not leave it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        settings: GpuNodes,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        after: IDependable,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        efa = EfaSecurityGroup(self, "Efa", vpc=vpc)
        # Independent of capacity: a reservation made without the group could not start nodes in it.
        placement_group = (
            ec2.CfnPlacementGroup(self, "PlacementGroup", strategy="cluster")
            if settings.placement_group
            else None
        )
        self.node_groups = {
            group.name: EfaNodeGroup(
                self,
                group.name,
                cluster=cluster,
                settings=group,
                subnet=subnet,
                efa_security_group=efa.security_group,
                placement_group=placement_group,
                after=after,
                tags=tags,
            )
            for group in settings.groups
        }
