"""How the VPC's addresses are split, and how many the nodes and their pods take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network

from kvrelay.data import instance_type

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


# The VPC CNI keeps one interface's worth of addresses spare on each node (WARM_ENI_TARGET=1). A GPU node's few
# pods fit on its first interface; a system node's may spill onto a second.
# https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/eni-and-ip-target.md
_INTERFACES_OF_GPU_NODES = 2
_INTERFACES_OF_SYSTEM_NODES = 3


def addresses_needed(nodes: Iterable[tuple[str, int]]) -> int:
    """The most addresses of one subnet that `(instance type, count)` nodes and their pods take."""
    total = 0
    for name, count in nodes:
        kind = instance_type(name)
        interfaces = _INTERFACES_OF_GPU_NODES if kind.gpu else _INTERFACES_OF_SYSTEM_NODES
        total += count * min(interfaces, kind.max_interfaces) * kind.ipv4_per_interface
    return total


def wider_range(needed: int, zone_count: int) -> str:
    """Which VPC range would do."""
    for length in range(22, 15, -1):
        if SubnetPlan.of(f"10.0.0.0/{length}", zone_count).usable_private_addresses >= needed:
            return f"use a larger range, /{length} or wider"
    return "use fewer nodes or fewer zones; no VPC range is wide enough"
