"""CPU nodes for the KubeRay operator, the Ray head and the cluster's own pods."""

from collections.abc import Mapping

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from kvrelay.settings import SystemNodes
from kvrelay.settings.scheduling import ROLE_LABEL, SYSTEM_ROLE
from kvrelay_aws.launch_templates import encrypted_root, imdsv2_only, tagged
from kvrelay_aws.node_role import NodeRole


class SystemNodeGroup(Construct):
    """The system nodes. They sit beside the GPU nodes: the Ray head talks to the workers all the time."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        settings: SystemNodes,
        subnet: ec2.ISubnet,
        after: IDependable,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, id)
        template = ec2.CfnLaunchTemplate(
            self,
            "LaunchTemplate",
            launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
                instance_type=settings.instance_type,
                metadata_options=imdsv2_only(),
                block_device_mappings=encrypted_root(settings.root_volume_gib),
                tag_specifications=tagged(tags),
            ),
        )
        self.node_group = eks.Nodegroup(
            self,
            "NodeGroup",
            cluster=cluster,
            ami_type=eks.NodegroupAmiType.AL2023_X86_64_STANDARD,
            subnets=ec2.SubnetSelection(subnets=[subnet]),
            min_size=settings.count,
            desired_size=settings.count,
            # One more, so that an update can start a node before it stops one.
            max_size=settings.count + 1,
            max_unavailable=1,
            labels={ROLE_LABEL: SYSTEM_ROLE},
            node_role=NodeRole(self, "Role").role,
            launch_template_spec=eks.LaunchTemplateSpec(
                id=template.ref, version=template.attr_latest_version_number
            ),
        )
        self.node_group.node.add_dependency(after)
