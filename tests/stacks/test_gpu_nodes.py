"""GPU nodes: one zone, all of a type's EFA interfaces, and the capacity that was asked for."""

from __future__ import annotations

import base64
import email
import email.message
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kvrelay.data import instance_types

if TYPE_CHECKING:
    from tests.stacks.conftest import Synthesized

EFA_TYPES = [each for each in instance_types() if each.gpu and each.efa]
RESERVATION = "cr-0123456789abcdef0"


def test_gpu_nodes_sit_in_exactly_one_zone(synth: Callable[[str], Synthesized]) -> None:
    result = synth("gpu_nodes: {zone: us-east-2b}\n")
    (subnet,) = _gpu_node_group(result)["Subnets"]
    assert "privateSubnet2" in subnet["Fn::ImportValue"]
    private_zones = {
        name: each["Properties"]["AvailabilityZone"]
        for name, each in result.of_type("AWS::EC2::Subnet").items()
        if "privateSubnet2" in name
    }
    assert set(private_zones.values()) == {"us-east-2b"}


def test_gpu_nodes_run_the_image_with_the_driver_and_as_many_as_asked(reference: Synthesized) -> None:
    group = _gpu_node_group(reference)
    assert group["AmiType"] == "AL2023_x86_64_NVIDIA"
    assert group["ScalingConfig"] == {"MinSize": 2, "DesiredSize": 2, "MaxSize": 2}
    assert group["CapacityType"] == "ON_DEMAND"


def test_an_update_of_a_fixed_count_needs_no_spare_gpu(synth: Callable[[str], Synthesized]) -> None:
    fixed = _gpu_node_group(synth("gpu_nodes: {groups: [{count: 2}]}\n"))
    roomy = _gpu_node_group(synth("gpu_nodes: {groups: [{count: 2, max_count: 4}]}\n"))
    assert fixed["UpdateConfig"]["UpdateStrategy"] == "MINIMAL"
    assert "UpdateStrategy" not in roomy["UpdateConfig"]


def test_only_what_tolerates_the_taint_lands_on_gpu_nodes(reference: Synthesized) -> None:
    group = _gpu_node_group(reference)
    assert group["Taints"] == [{"Key": "nvidia.com/gpu", "Value": "present", "Effect": "NO_SCHEDULE"}]
    assert group["Labels"] == {"role": "gpu-worker", "kvrelay.io/node-group": "gpu"}


@pytest.mark.parametrize("name", [each.name for each in EFA_TYPES])
def test_a_node_has_every_efa_interface_of_its_type(synth: Callable[[str], Synthesized], name: str) -> None:
    kind = next(each for each in EFA_TYPES if each.name == name)
    interfaces = _launch_template(synth(f"gpu_nodes: {{groups: [{{instance_type: {name}}}]}}\n"))[
        "NetworkInterfaces"
    ]
    efa = [each for each in interfaces if each["InterfaceType"].startswith("efa")]
    assert len(efa) == kind.efa_interfaces
    places = [(each["NetworkCardIndex"], each["DeviceIndex"]) for each in interfaces]
    assert len(set(places)) == len(places)
    assert places[0] == (0, 0)
    for each in interfaces:
        card = kind.network_cards[each["NetworkCardIndex"]]
        assert each["DeviceIndex"] < card.max_interfaces
        assert card.efa or each["InterfaceType"] == "interface"
        assert each["DeleteOnTermination"] is True
        assert "SubnetId" not in each
    assert interfaces[0]["InterfaceType"] != "efa-only", "the first interface carries IP"


def test_security_groups_stand_on_the_interfaces_alone(reference: Synthesized) -> None:
    data = _launch_template(reference)
    assert "SecurityGroupIds" not in data
    (interface,) = data["NetworkInterfaces"]
    attributes = [group["Fn::GetAtt"][1] for group in interface["Groups"]]
    assert attributes == ["GroupId", "ClusterSecurityGroupId"]


def test_efa_traffic_is_allowed_to_and_from_the_group_itself(reference: Synthesized) -> None:
    ingress = reference.only("AWS::EC2::SecurityGroupIngress")
    egress = reference.only("AWS::EC2::SecurityGroupEgress")
    assert ingress["IpProtocol"] == egress["IpProtocol"] == "-1"
    assert ingress["GroupId"] == ingress["SourceSecurityGroupId"]
    assert egress["GroupId"] == egress["DestinationSecurityGroupId"] == ingress["GroupId"]


def test_nvme_disks_become_one_volume(synth: Callable[[str], Synthesized]) -> None:
    assert _node_config(synth("name: kvrelay\n"))["instance"] == {"localStorage": {"strategy": "RAID0"}}


def test_layers_of_an_image_are_pulled_side_by_side(synth: Callable[[str], Synthesized]) -> None:
    assert _node_config(synth("name: kvrelay\n"))["featureGates"] == {"FastImagePull": True}
    one_by_one = synth("gpu_nodes: {groups: [{image_pull: sequential}]}\n")
    assert "featureGates" not in _node_config(one_by_one)
    assert "instance" in _node_config(one_by_one)


@pytest.mark.parametrize("name", [each.name for each in EFA_TYPES])
def test_every_type_unpacks_images_on_disks_of_its_own(name: str) -> None:
    """On an EBS volume of 125 MiB/s a parallel pull is slower than a plain one: a type without NVMe needs a faster
    root volume before it may be added."""
    assert next(each for each in EFA_TYPES if each.name == name).nvme


def test_spot_is_the_node_groups_business(synth: Callable[[str], Synthesized]) -> None:
    result = synth("gpu_nodes: {groups: [{capacity: {type: spot}}]}\n")
    assert _gpu_node_group(result)["CapacityType"] == "SPOT"
    assert "InstanceMarketOptions" not in _launch_template(result)


@pytest.mark.parametrize(
    ("kind", "capacity_type", "market"),
    [("reservation", "ON_DEMAND", None), ("capacity-block", "CAPACITY_BLOCK", "capacity-block")],
)
def test_a_named_reservation_is_the_only_place_nodes_start(
    synth: Callable[[str], Synthesized], kind: str, capacity_type: str, market: str | None
) -> None:
    result = synth(
        f"gpu_nodes: {{groups: [{{capacity: {{type: {kind}, reservation_id: {RESERVATION}}}}}]}}\n"
    )
    data = _launch_template(result)
    target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": RESERVATION}
    assert _gpu_node_group(result)["CapacityType"] == capacity_type
    assert data.get("InstanceMarketOptions", {}).get("MarketType") == market
    assert "Placement" not in data, "a reservation made without a placement group can't start nodes in one"


def test_a_placement_group_is_made_when_asked_for(synth: Callable[[str], Synthesized]) -> None:
    result = synth("gpu_nodes: {placement_group: true}\n")
    (name,) = result.of_type("AWS::EC2::PlacementGroup")
    assert _launch_template(result)["Placement"] == {"GroupName": {"Ref": name}}


def test_each_role_can_have_nodes_of_its_own(synth: Callable[[str], Synthesized]) -> None:
    result = synth(
        "gpu_nodes:\n  groups:\n"
        "    - {name: prefill, roles: [prefill], instance_type: p5.48xlarge, count: 1}\n"
        "    - {name: decode, roles: [decode], instance_type: g6e.12xlarge, count: 3}\n"
    )
    groups = {
        each["Properties"]["Labels"]["kvrelay.io/node-group"]: each["Properties"]["ScalingConfig"]
        for each in result.of_type("AWS::EKS::Nodegroup").values()
        if "kvrelay.io/node-group" in each["Properties"]["Labels"]
    }
    assert groups["prefill"]["DesiredSize"] == 1
    assert groups["decode"]["DesiredSize"] == 3


def _gpu_node_group(result: Synthesized) -> dict[str, Any]:
    groups: list[dict[str, Any]] = [
        each["Properties"]
        for each in result.of_type("AWS::EKS::Nodegroup").values()
        if each["Properties"]["Labels"]["role"] == "gpu-worker"
    ]
    (group,) = groups
    return group


def _node_config(result: Synthesized) -> dict[str, Any]:
    """The `spec` that nodeadm reads, out of its part of the user data."""
    message = email.message_from_bytes(base64.b64decode(_launch_template(result)["UserData"]))
    parts = message.get_payload()
    assert isinstance(parts, list)
    (part,) = parts
    assert isinstance(part, email.message.Message)
    assert part.get_content_type() == "application/node.eks.aws"
    config = yaml.safe_load(str(part.get_payload()))
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    spec: dict[str, Any] = config["spec"]
    return spec


def _launch_template(result: Synthesized) -> dict[str, Any]:
    name = _gpu_node_group(result)["LaunchTemplate"]["Id"]["Ref"]
    data: dict[str, Any] = result.of_type("AWS::EC2::LaunchTemplate")[name]["Properties"][
        "LaunchTemplateData"
    ]
    return data
