"""Simulated EKS nodes: what a node of an instance type offers after EKS's own reservations."""

from __future__ import annotations

import ipaddress
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvrelay.data.instances import InstanceType, instance_type
from kvrelay.local.kubernetes.api import Object
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import (
    GPU_TAINT_EFFECT,
    GPU_TAINT_KEY,
    GPU_TAINT_VALUE,
    GPU_WORKER_ROLE,
    NODE_GROUP_LABEL,
    ROLE_LABEL,
    SYSTEM_ROLE,
)

GPU = "nvidia.com/gpu"
EFA = "vpc.amazonaws.com/efa"
HUGE_PAGES = "hugepages-2Mi"

# The part of an instance's memory that firmware and kernel keep, as Karpenter assumes it (VM_MEMORY_OVERHEAD_PERCENT);
# instances are seen to have 3 to 7 % less than EC2 states.
_MEMORY_OVERHEAD = 0.075
# Kubelet's eviction threshold on EKS nodes. https://awslabs.github.io/amazon-eks-ami/nodeadm/
_EVICTION_MIB = 100
# Huge pages of 2 MiB that the EFA installer sets aside at boot.
_EFA_HUGE_PAGES = 5128


@dataclass(frozen=True)
class SimulatedNode:
    """One node to be. Devices are offered from the start, or (`plugged` false) once a device plugin runs there."""

    name: str
    type: InstanceType
    zone: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...] = ()
    root_volume_gib: int = 50
    plugged: bool = False

    @property
    def address(self) -> str:
        """The address in the node's name (`ip-10-0-1-7...`)."""
        return ".".join(self.name.split(".")[0].split("-")[1:])

    @property
    def devices(self) -> dict[str, str]:
        """Extended resources that device plugins offer here."""
        offered = {GPU: self.type.gpu.count if self.type.gpu else 0, EFA: self.type.efa_interfaces}
        return {name: str(count) for name, count in offered.items() if count}

    def capacity(self) -> dict[str, str]:
        """What the node has, without devices."""
        disk = self.root_volume_gib * 1024**3
        if self.type.nvme and self.type.gpu:
            # RAID0 over the instance store holds containers and kubelet's folder.
            disk = self.type.nvme.count * self.type.nvme.size_gb * 10**9
        return {
            "cpu": str(self.type.vcpus),
            "memory": f"{self._memory_mib()}Mi",
            "ephemeral-storage": str(disk),
            "pods": str(self.type.max_pods),
            **({HUGE_PAGES: f"{self._huge_pages_mib()}Mi"} if self._huge_pages_mib() else {}),
        }

    def allocatable(self) -> dict[str, str]:
        """What is left for pods: nodeadm's reservations, as Amazon's AMI computes them.

        Source: https://github.com/awslabs/amazon-eks-ami (kubelet config: kube-reserved).
        """
        capacity = self.capacity()
        memory = self._memory_mib() - 255 - 11 * self.type.max_pods - _EVICTION_MIB - self._huge_pages_mib()
        disk = int(int(capacity["ephemeral-storage"]) * 0.9) - 1024**3
        return {
            **capacity,
            "cpu": f"{self.type.vcpus * 1000 - reserved_millicores(self.type.vcpus)}m",
            "memory": f"{memory}Mi",
            "ephemeral-storage": str(disk),
        }

    def manifest(self) -> Object:
        """The Node object as the kubelet registers it."""
        region = self.zone[:-1]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": {
                    "kubernetes.io/arch": "amd64",
                    "kubernetes.io/os": "linux",
                    "kubernetes.io/hostname": self.name,
                    "node.kubernetes.io/instance-type": self.type.name,
                    "topology.kubernetes.io/zone": self.zone,
                    "topology.kubernetes.io/region": region,
                    "eks.amazonaws.com/capacityType": "ON_DEMAND",
                    **self.labels,
                },
            },
            "spec": {
                "providerID": f"aws:///{self.zone}/i-{zlib.crc32(self.name.encode()):017x}",
                "taints": [dict(taint) for taint in self.taints],
            },
        }

    def status(self) -> Object:
        """The status of a healthy node."""
        devices = self.devices if self.plugged else {}
        return {
            "capacity": {**self.capacity(), **devices},
            "allocatable": {**self.allocatable(), **devices},
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "conditions": [
                condition("Ready", True, "KubeletReady"),
                condition("MemoryPressure", False, "KubeletHasSufficientMemory"),
                condition("DiskPressure", False, "KubeletHasNoDiskPressure"),
                condition("PIDPressure", False, "KubeletHasSufficientPID"),
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.36.3-eks-simulated",
                "containerRuntimeVersion": "containerd://2.1.5",
                "kernelVersion": "6.12.0-simulated",
                "osImage": "Amazon Linux 2023 (simulated)",
                "operatingSystem": "linux",
                "architecture": "amd64",
                "bootID": "simulated",
                "machineID": self.name,
                "systemUUID": self.name,
                "kubeProxyVersion": "",
            },
        }

    def _huge_pages_mib(self) -> int:
        return 2 * _EFA_HUGE_PAGES if self.type.efa and self.type.gpu else 0

    def _memory_mib(self) -> int:
        return math.floor(self.type.memory_mib * (1 - _MEMORY_OVERHEAD))


def condition(kind: str, status: bool | None, reason: str) -> Object:
    """A node's or pod's condition; None is Unknown."""
    text = "Unknown" if status is None else str(status)
    return {"type": kind, "status": text, "reason": reason, "message": reason}


def reserved_millicores(vcpus: int) -> int:
    """CPU that EKS reserves: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest."""
    shares = [60, 10, 5, 5] + [2.5] * max(0, vcpus - 4)
    return math.floor(sum(shares[:vcpus]))


def nodes_of(deployment: Deployment, *, plugged: bool = False) -> list[SimulatedNode]:
    """The nodes that this deployment's node groups start: first the system's, then the GPU groups' in order."""
    addresses = _addresses(deployment.network.cidr)
    zone = deployment.gpu_nodes.zone
    nodes = [
        SimulatedNode(
            _name(next(addresses), deployment.region),
            instance_type(deployment.system_nodes.instance_type),
            zone,
            {ROLE_LABEL: SYSTEM_ROLE, "eks.amazonaws.com/nodegroup": "system"},
            root_volume_gib=deployment.system_nodes.root_volume_gib,
        )
        for _ in range(deployment.system_nodes.count)
    ]
    for group in deployment.gpu_nodes.groups:
        for _ in range(group.count):
            nodes.append(
                gpu_node(deployment, group.name, _name(next(addresses), deployment.region), plugged=plugged)
            )
    return nodes


def gpu_node(deployment: Deployment, group_name: str, name: str, *, plugged: bool = False) -> SimulatedNode:
    """One node of the GPU group of that name."""
    group = next(group for group in deployment.gpu_nodes.groups if group.name == group_name)
    return SimulatedNode(
        name,
        instance_type(group.instance_type),
        deployment.gpu_nodes.zone,
        {
            ROLE_LABEL: GPU_WORKER_ROLE,
            NODE_GROUP_LABEL: group.name,
            "eks.amazonaws.com/nodegroup": group.name,
        },
        ({"key": GPU_TAINT_KEY, "value": GPU_TAINT_VALUE, "effect": GPU_TAINT_EFFECT},),
        root_volume_gib=group.root_volume_gib,
        plugged=plugged,
    )


def _addresses(cidr: str) -> Iterator[str]:
    # The first addresses of a subnet are AWS's own.
    hosts = iter(ipaddress.IPv4Network(cidr).hosts())
    for _ in range(9):
        next(hosts)
    return map(str, hosts)


def _name(address: str, region: str) -> str:
    return f"ip-{address.replace('.', '-')}.{region}.compute.internal"
