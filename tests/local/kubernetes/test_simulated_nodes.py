"""What simulated nodes offer."""

import pytest

from kvrelay.data.instances import instance_type
from kvrelay.local.kubernetes.nodes import EFA, GPU, HUGE_PAGES, SimulatedNode, nodes_of, reserved_millicores
from kvrelay.settings import Deployment, GpuNodeGroup, GpuNodes


def node(type_name: str) -> SimulatedNode:
    return SimulatedNode(
        "ip-10-0-0-10.us-east-2.compute.internal", instance_type(type_name), "us-east-2a", {}
    )


@pytest.mark.parametrize(
    ("vcpus", "millicores"), [(1, 60), (2, 70), (4, 80), (8, 90), (32, 150), (96, 310), (192, 550)]
)
def test_reserved_cpu_is_what_eks_documents(vcpus: int, millicores: int) -> None:
    assert reserved_millicores(vcpus) == millicores


def test_allocatable_is_less_than_capacity_by_eks_reservations() -> None:
    simulated = node("m7i.xlarge")
    assert simulated.capacity()["cpu"] == "4"
    assert simulated.allocatable()["cpu"] == "3920m"
    capacity, allocatable = (
        int(each["memory"].removesuffix("Mi")) for each in (simulated.capacity(), simulated.allocatable())
    )
    # 255 MiB + 11 MiB for each of 58 pods, and 100 MiB of eviction threshold.
    assert capacity - allocatable == 255 + 11 * 58 + 100
    assert capacity < 16 * 1024


def test_huge_pages_are_not_ordinary_memory() -> None:
    simulated = node("g6.8xlarge")
    assert simulated.allocatable()[HUGE_PAGES] == "10256Mi"
    with_pages = int(simulated.allocatable()["memory"].removesuffix("Mi"))
    assert with_pages < int(simulated.capacity()["memory"].removesuffix("Mi")) - 10256


@pytest.mark.parametrize(
    ("type_name", "devices"),
    [
        ("g6.8xlarge", {GPU: "1", EFA: "1"}),
        ("p5.48xlarge", {GPU: "8", EFA: "32"}),
        ("g6.xlarge", {GPU: "1"}),
        ("m7i.xlarge", {}),
    ],
)
def test_devices_come_from_instance_data(type_name: str, devices: dict[str, str]) -> None:
    assert node(type_name).devices == devices


def test_devices_are_offered_only_once_plugged() -> None:
    simulated = node("g6.8xlarge")
    assert GPU not in simulated.status()["allocatable"]
    plugged = SimulatedNode(simulated.name, simulated.type, simulated.zone, {}, plugged=True)
    assert plugged.status()["allocatable"][GPU] == "1"


def test_nodes_are_those_of_the_deployment() -> None:
    deployment = Deployment(gpu_nodes=GpuNodes(groups=(GpuNodeGroup(count=3),)))
    nodes = nodes_of(deployment)
    assert [each.type.name for each in nodes] == ["m7i.xlarge"] + ["g6.8xlarge"] * 3
    assert len({each.name for each in nodes}) == 4
    assert {each.zone for each in nodes} == {"us-east-2a"}
    assert [bool(each.taints) for each in nodes] == [False, True, True, True]


def test_many_nodes_have_names_of_their_own() -> None:
    deployment = Deployment(gpu_nodes=GpuNodes(groups=(GpuNodeGroup(count=256),)))
    assert len({each.address for each in nodes_of(deployment)}) == 257
