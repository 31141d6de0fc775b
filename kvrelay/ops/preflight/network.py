"""Whether the VPC's range overlaps another that it may have to reach."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from kvrelay.ops.preflight.aws import tag
from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.settings.scheduling import DEPLOYMENT_TAG


class Ranges:
    """The account's VPCs, and what they are peered with."""

    name = "network"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """One row; an overlap only hurts once the two are joined."""
        deployment, aws = subject.source.deployment, subject.aws
        own = IPv4Network(deployment.network.cidr)
        others = {
            vpc["VpcId"]: [block["CidrBlock"] for block in vpc.get("CidrBlockAssociationSet", ())]
            for vpc in aws.pages("ec2", "describe_vpcs", "Vpcs")
            if tag(vpc, DEPLOYMENT_TAG) != deployment.name
        }
        for peering in aws.pages("ec2", "describe_vpc_peering_connections", "VpcPeeringConnections"):
            for side in (peering.get("AccepterVpcInfo", {}), peering.get("RequesterVpcInfo", {})):
                if side.get("CidrBlock"):
                    others.setdefault(side["VpcId"], []).append(side["CidrBlock"])
        overlapping = sorted(
            f"{name} ({cidr})"
            for name, ranges in others.items()
            for cidr in set(ranges)
            if IPv4Network(cidr).overlaps(own)
        )
        if overlapping:
            mend = "choose another network.cidr if the two are ever to be peered"
            yield Row(self.name, str(own), Status.WARN, f"overlaps {', '.join(overlapping)}", mend)
        else:
            yield Row(self.name, str(own), Status.PASS, f"overlaps none of {len(others)} VPCs known here")
