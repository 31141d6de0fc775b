"""EC2 instance types: what EC2's DescribeInstanceTypes says of them, and what it leaves out about EFA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from kvrelay.data.reading import load, names
from kvrelay.data.unknown import unknown_name

QuotaFamily = Literal["standard", "g-and-vt", "p"]
EfaRdma = Literal["none", "read", "read-write"]


@dataclass(frozen=True, slots=True)
class InstanceGpus:
    """The GPUs of an instance, all alike. `memory_mib` is of one GPU, as EC2 states it."""

    kind: str
    count: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """One network card: how many interfaces it takes, its speed, and whether one of them may be EFA."""

    index: int
    max_interfaces: int
    gbps: float
    efa: bool


@dataclass(frozen=True, slots=True)
class Nvme:
    """Instance-store disks; `size_gb` is of one disk, in 10^9 bytes."""

    count: int
    size_gb: int


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One EC2 instance type. Memory in MiB, network in Gb/s (10^9 bits per second)."""

    name: str
    vcpus: int
    memory_mib: int
    gpu: InstanceGpus | None
    network_gbps: float
    """The speed that the instance can hold, all cards together, EFA included."""
    network_cards: tuple[NetworkCard, ...]
    efa_interfaces: int
    """The most EFA interfaces it takes, one on each card that allows it; 0 without EFA."""
    efa_rdma: EfaRdma
    """`none`: messages only (g5); `read`: no RDMA write (p4d); `read-write`: all newer ones."""
    gpudirect_rdma: bool
    """Whether EFA reads and writes GPU memory itself; else transfers are staged through host memory."""
    nvme: Nvme | None
    ipv4_per_interface: int

    @property
    def efa(self) -> bool:
        """Whether the type has EFA at all."""
        return self.efa_interfaces > 0

    @property
    def family(self) -> str:
        """`g6` of `g6.8xlarge`."""
        return self.name.partition(".")[0]

    @property
    def quota_family(self) -> QuotaFamily:
        """Which EC2 vCPU quota it counts against; see `kvrelay.data.quotas`."""
        return "p" if self.name[0] == "p" else "g-and-vt" if self.name[0] in "gv" else "standard"

    @property
    def max_interfaces(self) -> int:
        """The most network interfaces on the default card, which pods' addresses come from."""
        return self.network_cards[0].max_interfaces

    @property
    def max_pods(self) -> int:
        """The most pods EKS puts on a managed node: by addresses, and at most 110 or (30 vCPUs up) 250.

        Source: https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html
        """
        by_addresses = self.max_interfaces * (self.ipv4_per_interface - 1) + 2
        return min(by_addresses, 110 if self.vcpus < 30 else 250)


def instance_type(name: str) -> InstanceType:
    """The type of that name. Raises UnknownNameError (a UserError) with the closest names."""
    family = name.partition(".")[0]
    if family in names("instance_types"):
        types = _family(family)
        if name in types:
            return types[name]
    raise unknown_name(
        "instance type", name, (each.name for each in instance_types()), "kvrelay data refresh"
    )


@cache
def instance_types() -> tuple[InstanceType, ...]:
    """Every type known, by family, then by size. Reads all families: prefer `instance_type` for one."""
    return tuple(each for family in names("instance_types") for each in _family(family).values())


@cache
def _family(family: str) -> Mapping[str, InstanceType]:
    content = load(f"instance_types/{family}.yaml")
    return {name: _parse(name, entry) for name, entry in content["types"].items()}


def _parse(name: str, entry: Mapping[str, Any]) -> InstanceType:
    cards = [card for card in entry["network_cards"] for _ in range(card["count"])]
    gpu, nvme = entry.get("gpu"), entry.get("nvme")
    return InstanceType(
        name=name,
        vcpus=entry["vcpus"],
        memory_mib=entry["memory_mib"],
        gpu=InstanceGpus(gpu["kind"], gpu["count"], gpu["memory_mib"]) if gpu else None,
        network_gbps=entry["network_gbps"],
        network_cards=tuple(
            NetworkCard(index, card["max_interfaces"], card["gbps"], card["efa"])
            for index, card in enumerate(cards)
        ),
        efa_interfaces=entry["efa_interfaces"],
        efa_rdma=entry["efa_rdma"],
        gpudirect_rdma=entry["gpudirect_rdma"],
        nvme=Nvme(nvme["count"], nvme["size_gb"]) if nvme else None,
        ipv4_per_interface=entry["ipv4_per_interface"],
    )
