"""Instance types: the same as EC2 says, complete, and refused clearly when unknown."""

from typing import Any

import pytest

from kvrelay.data import Nvme, Purchase, UnknownNameError, instance_type, instance_types, quotas, vcpu_quota
from kvrelay.data.refresh import entry, wanted_types


@pytest.fixture(scope="session")
def described() -> dict[str, Any]:
    """What moto holds: AWS's own DescribeInstanceTypes answers."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    return dict(INSTANCE_TYPES)


def test_every_wanted_type_is_known() -> None:
    assert {each.name for each in instance_types()} == set(wanted_types())


@pytest.mark.parametrize("name", wanted_types())
def test_each_type_equals_what_ec2_describes(described: dict[str, Any], name: str) -> None:
    known, api = instance_type(name), described[name]
    network = api["NetworkInfo"]
    assert known.vcpus == api["VCpuInfo"]["DefaultVCpus"]
    assert known.memory_mib == api["MemoryInfo"]["SizeInMiB"]
    assert known.efa == network["EfaSupported"]
    assert known.efa_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert [(card.max_interfaces, card.gbps, card.efa) for card in known.network_cards] == [
        (card["MaximumNetworkInterfaces"], card["BaselineBandwidthInGbps"], "efa" in card["InterfaceTypes"])
        for card in network["NetworkCards"]
    ]
    gpus = [
        (gpu["Name"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"])
        for gpu in api.get("GpuInfo", {}).get("Gpus", [])
    ]
    assert ([(known.gpu.kind, known.gpu.count, known.gpu.memory_mib)] if known.gpu else []) == gpus
    disks = [
        (disk["Count"], disk["SizeInGB"]) for disk in api.get("InstanceStorageInfo", {}).get("Disks", [])
    ]
    assert ([(known.nvme.count, known.nvme.size_gb)] if known.nvme else []) == disks


def test_as_many_cards_take_efa_as_there_are_efa_interfaces() -> None:
    for each in instance_types():
        assert sum(card.efa for card in each.network_cards) == each.efa_interfaces, each.name


def test_only_types_with_efa_claim_rdma_or_gpudirect() -> None:
    for each in instance_types():
        if not each.efa:
            assert (each.efa_rdma, each.gpudirect_rdma) == ("none", False), each.name
        if each.gpudirect_rdma:
            assert each.efa_rdma != "none", each.name


def test_the_reference_node_is_the_smallest_g6_with_efa() -> None:
    with_efa = [each for each in instance_types() if each.family == "g6" and each.efa]
    assert min(with_efa, key=lambda each: each.vcpus).name == "g6.8xlarge"
    reference = instance_type("g6.8xlarge")
    assert (reference.network_gbps, reference.gpudirect_rdma, reference.nvme) == (25.0, False, Nvme(2, 450))


@pytest.mark.parametrize(
    ("name", "gbps"),
    [("p4d.24xlarge", 400), ("p5.48xlarge", 3200), ("p6-b200.48xlarge", 3200), ("g6.xlarge", 2.5)],
)
def test_network_speed_counts_what_lasts_efa_included(name: str, gbps: float) -> None:
    assert instance_type(name).network_gbps == gbps


@pytest.mark.parametrize(
    ("name", "pods"), [("m7i.xlarge", 58), ("g6.8xlarge", 234), ("p5.48xlarge", 100), ("p4d.24xlarge", 250)]
)
def test_pods_are_bounded_by_addresses_and_by_eks(name: str, pods: int) -> None:
    assert instance_type(name).max_pods == pods


def test_an_unknown_type_names_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'g6\.8xlrge' is not known; did you mean g6\.8xlarge"):
        instance_type("g6.8xlrge")


def test_an_unknown_family_says_how_to_add_types() -> None:
    with pytest.raises(UnknownNameError, match="kvrelay data refresh"):
        instance_type("quantum")


@pytest.mark.parametrize(
    ("name", "purchase", "code"),
    [
        ("g6.8xlarge", "on-demand", "L-DB2E81BA"),
        ("gr6.8xlarge", "spot", "L-3819A6DF"),
        ("p5.48xlarge", "on-demand", "L-417A185B"),
        ("p6-b200.48xlarge", "spot", "L-7212CCBC"),
        ("m7i.xlarge", "on-demand", "L-1216C47A"),
    ],
)
def test_each_family_counts_against_its_own_quota(name: str, purchase: Purchase, code: str) -> None:
    assert vcpu_quota(instance_type(name), purchase).code == code


def test_quota_codes_are_distinct() -> None:
    codes = [quota.code for quota in quotas().values()]
    assert len(set(codes)) == len(codes)


def test_a_card_without_interface_types_is_efa_where_the_type_is() -> None:
    described = {
        "InstanceType": "x1.large",
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 1024},
        "NetworkInfo": {
            "EfaSupported": True,
            "EfaInfo": {"MaximumEfaInterfaces": 1},
            "NetworkPerformance": "Up to 10 Gigabit",
            "Ipv4AddressesPerInterface": 10,
            "NetworkCards": [
                {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 2, "BaselineBandwidthInGbps": 5.0}
            ],
        },
    }
    written = entry(described)
    assert written["network_cards"] == [{"count": 1, "max_interfaces": 2, "gbps": 5.0, "efa": True}]
    assert written["network_gbps"] == 5.0
