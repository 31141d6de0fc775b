"""How the VPC's addresses are split, and how many the nodes and their pods take."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network

# AWS keeps five addresses of each subnet. https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
RESERVED_BY_AWS = 5
# EKS puts up to four of its own interfaces there and wants sixteen addresses free for upgrades.
# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
KEPT_FOR_EKS = 16


@dataclass(frozen=True)
class SubnetPlan:
    """Prefix lengths of the public and private subnets, one of each in every zone."""

    public_prefix_length: int
    private_prefix_length: int

    @classmethod
    def of(cls, cidr: str, zone_count: int) -> SubnetPlan:
        """Private subnets take all but one of the equal blocks; that one holds the public subnets."""
        blocks = 1 << zone_count.bit_length()
        private = IPv4Network(cidr).prefixlen + blocks.bit_length() - 1
        public = max(26, private + (zone_count - 1).bit_length())
        return cls(public, private)

    @property
    def usable_private_addresses(self) -> int:
        """Addresses in one private subnet that nodes and pods can take."""
        return (1 << (32 - self.private_prefix_length)) - RESERVED_BY_AWS - KEPT_FOR_EKS
