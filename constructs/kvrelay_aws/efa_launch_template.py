"""The launch template of GPU nodes: EFA interfaces from instance data, reservation, local storage, image pulls."""

from collections.abc import Mapping, Sequence

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kvrelay.data import InstanceType, NetworkCard, instance_type
from kvrelay.settings import Capacity, CapacityBlock, GpuNodeGroup, Reservation
from kvrelay_aws.launch_templates import encrypted_root, imdsv2_only, tagged
from kvrelay_aws.node_config import user_data


def efa_launch_template(
    scope: Construct,
    *,
    settings: GpuNodeGroup,
    security_group_ids: Sequence[str],
    placement_group: ec2.CfnPlacementGroup | None,
    tags: Mapping[str, str],
) -> ec2.CfnLaunchTemplate:
    """One launch template for one node group."""
    kind = instance_type(settings.instance_type)
    return ec2.CfnLaunchTemplate(
        scope,
        "LaunchTemplate",
        launch_template_data=ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
            instance_type=kind.name,
            network_interfaces=efa_interfaces(kind, security_group_ids),
            metadata_options=imdsv2_only(),
            block_device_mappings=encrypted_root(settings.root_volume_gib),
            user_data=user_data(
                local_storage=kind.nvme is not None, parallel_pull=settings.image_pull == "parallel"
            ),
            capacity_reservation_specification=targeted_reservation(settings.capacity),
            instance_market_options=market(settings.capacity),
            placement=ec2.CfnLaunchTemplate.PlacementProperty(group_name=placement_group.ref)
            if placement_group
            else None,
            tag_specifications=tagged(tags),
        ),
    )


def efa_interfaces(
    kind: InstanceType, security_group_ids: Sequence[str]
) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty]:
    """One EFA interface on each network card that can have one; groups go on the interfaces alone.

    The first interface also carries IP (`efa`, or `interface` where its card has no EFA). Further cards get
    the EFA device alone (`efa-only`), at device index 1, and take no address of the subnet. No subnet here:
    the node group names it.
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    """
    return [
        ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
            network_card_index=card.index,
            device_index=0 if card.index == 0 else 1,
            interface_type=_interface_type(card),
            groups=list(security_group_ids),
            delete_on_termination=True,
        )
        for card in kind.network_cards
        if card.efa or card.index == 0
    ]


def _interface_type(card: NetworkCard) -> str:
    if card.index > 0:
        return "efa-only"
    return "efa" if card.efa else "interface"


def targeted_reservation(
    capacity: Capacity,
) -> ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty | None:
    """Starts nodes inside the named reservation, and nowhere else."""
    if not isinstance(capacity, Reservation | CapacityBlock):
        return None
    return ec2.CfnLaunchTemplate.CapacityReservationSpecificationProperty(
        capacity_reservation_target=ec2.CfnLaunchTemplate.CapacityReservationTargetProperty(
            capacity_reservation_id=capacity.reservation_id
        )
    )


def market(capacity: Capacity) -> ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty | None:
    """Capacity Blocks are a market of their own; spot is the node group's business."""
    if not isinstance(capacity, CapacityBlock):
        return None
    return ec2.CfnLaunchTemplate.InstanceMarketOptionsProperty(market_type="capacity-block")
