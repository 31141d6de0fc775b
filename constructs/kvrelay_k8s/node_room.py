"""How much of a node is left for one pod of ours, estimated low."""

from dataclasses import dataclass

from kvrelay.data import InstanceType

# The hypervisor and kernel keep part of what EC2 states; Karpenter reckons with this share too.
_KEPT_BY_THE_MACHINE = 0.075
_EVICTION_MIB = 100
HUGE_PAGES_MIB = 10_256
"""The EFA installer sets 5128 pages of 2 MiB aside."""
# What else runs on each node: VPC CNI, kube-proxy, pod identity agent, device plugins.
_NODE_PODS_MILLICPU, _NODE_PODS_MIB = 300, 768
# And on system nodes: CoreDNS, metrics-server, the KubeRay operator; all may sit on one.
_SYSTEM_PODS_MILLICPU, _SYSTEM_PODS_MIB = 600, 1536


@dataclass(frozen=True)
class Room:
    """CPU in thousandths and memory in MiB."""

    millicpu: int
    memory_mib: int


def allocatable(instance: InstanceType) -> Room:
    """What the kubelet offers to pods, at least.

    Reserved by EKS: https://github.com/awslabs/amazon-eks-ami (kubelet defaults): 6 % of the first core, 1 % of the
    second, 0.5 % of the next two, 0.25 % of the rest; 255 MiB and 11 MiB for each pod.
    """
    shares = [60, 10, 5, 5] + [2.5] * max(0, instance.vcpus - 4)
    reserved_millicpu = round(sum(shares[: instance.vcpus]) + 0.5)
    huge_pages = HUGE_PAGES_MIB if instance.gpu and instance.efa else 0
    memory = instance.memory_mib * (1 - _KEPT_BY_THE_MACHINE) - huge_pages
    reserved_mib = 255 + 11 * instance.max_pods + _EVICTION_MIB
    return Room(instance.vcpus * 1000 - reserved_millicpu, int(memory) - reserved_mib)


def worker_room(instance: InstanceType) -> Room:
    """What a worker pod takes: a GPU node, but for what runs on each node. Whole cores and GiB."""
    offered = allocatable(instance)
    cores = (offered.millicpu - _NODE_PODS_MILLICPU) // 1000
    gib = (offered.memory_mib - _NODE_PODS_MIB) // 1024
    return Room(cores * 1000, gib * 1024)


def head_room(instance: InstanceType, heads: int) -> Room:
    """What one of `heads` Ray heads on the same system node takes, 2 cores and 8 GiB at most; half cores and GiB."""
    offered = allocatable(instance)
    millicpu = (offered.millicpu - _NODE_PODS_MILLICPU - _SYSTEM_PODS_MILLICPU) // heads
    mib = (offered.memory_mib - _NODE_PODS_MIB - _SYSTEM_PODS_MIB) // heads
    return Room(min(2000, millicpu // 250 * 250), min(8192, mib // 512 * 512))
