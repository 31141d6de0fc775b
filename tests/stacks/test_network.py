"""The network stack: what it lays out, and what it keeps closed."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.stacks.conftest import Synthesized


def test_each_zone_has_one_public_and_one_private_subnet(reference: Synthesized) -> None:
    subnets = [each["Properties"] for each in reference.of_type("AWS::EC2::Subnet").values()]
    zones = sorted(subnet["AvailabilityZone"] for subnet in subnets)
    assert zones == ["us-east-2a", "us-east-2a", "us-east-2b", "us-east-2b"]


def test_no_subnet_gives_nodes_public_addresses(reference: Synthesized) -> None:
    for subnet in reference.of_type("AWS::EC2::Subnet").values():
        assert subnet["Properties"].get("MapPublicIpOnLaunch") is False


@pytest.mark.parametrize("cidr", ["10.0.0.0/16", "10.0.0.0/18", "192.168.0.0/20"])
@pytest.mark.parametrize("letters", ["ab", "abc", "abcdef"])
def test_subnets_lie_in_the_range_and_apart(
    synth: Callable[[str], Synthesized], cidr: str, letters: str
) -> None:
    zones = ", ".join(f"us-east-2{letter}" for letter in letters)
    result = synth(f"zones: [{zones}]\nnetwork: {{cidr: {cidr}}}\n")
    ranges = [
        IPv4Network(each["Properties"]["CidrBlock"]) for each in result.of_type("AWS::EC2::Subnet").values()
    ]
    assert all(subnet.subnet_of(IPv4Network(cidr)) for subnet in ranges)
    assert not any(a.overlaps(b) for i, a in enumerate(ranges) for b in ranges[:i])
    assert len(ranges) == 2 * len(letters)


def test_subnets_carry_the_tags_by_which_load_balancers_find_them(reference: Synthesized) -> None:
    roles = sorted(
        tag["Key"]
        for subnet in reference.of_type("AWS::EC2::Subnet").values()
        for tag in subnet["Properties"]["Tags"]
        if tag["Key"].startswith("kubernetes.io/role/")
    )
    assert roles == ["kubernetes.io/role/elb"] * 2 + ["kubernetes.io/role/internal-elb"] * 2


@pytest.mark.parametrize(("setting", "count"), [("one", 1), ("one-per-zone", 2)])
def test_nat_gateways_are_as_many_as_asked(
    synth: Callable[[str], Synthesized], setting: str, count: int
) -> None:
    result = synth(f"network: {{nat_gateways: {setting}}}\n")
    assert len(result.of_type("AWS::EC2::NatGateway")) == count


def test_s3_is_reached_without_nat(reference: Synthesized) -> None:
    endpoint = reference.only("AWS::EC2::VPCEndpoint")
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert len(endpoint["RouteTableIds"]) == 4


def test_interface_endpoints_are_made_when_asked_for(synth: Callable[[str], Synthesized]) -> None:
    names = "ecr-api, ecr-docker, sts, ec2, eks, eks-auth, logs, secrets-manager"
    result = synth(f"network: {{interface_endpoints: [{names}]}}\n")
    services = {
        str(each["Properties"]["ServiceName"]).rpartition("us-east-2.")[2]
        for each in result.of_type("AWS::EC2::VPCEndpoint").values()
        if each["Properties"]["VpcEndpointType"] == "Interface"
    }
    assert services == {
        "ecr.api", "ecr.dkr", "sts", "ec2", "eks", "eks-auth", "logs", "secretsmanager"
    }  # fmt: skip


def test_the_default_security_group_lets_nothing_through(reference: Synthesized) -> None:
    assert len(reference.of_type("Custom::VpcRestrictDefaultSG")) == 1


def test_flow_logs_go_to_a_group_that_ends(reference: Synthesized) -> None:
    flow_log = reference.only("AWS::EC2::FlowLog")
    assert flow_log["TrafficType"] == "ALL"
    group = reference.of_type("AWS::Logs::LogGroup", "Network")[flow_log["LogGroupName"]["Ref"]]
    assert group["Properties"]["RetentionInDays"] == 30
    assert group["DeletionPolicy"] == "Delete"
