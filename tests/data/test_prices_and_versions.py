"""Prices and versions: known where sourced, unknown elsewhere, and each with a date."""

import re

import pytest

from kvrelay.data import (
    UnknownNameError,
    all_gpus,
    container_versions,
    gpu,
    instance_types,
    known_container_tags,
    known_regions,
    offered,
    price,
    price_date,
    priced_regions,
    regions_offering,
    service_prices,
    versions,
)


def test_the_reference_nodes_have_prices() -> None:
    assert price("g6.8xlarge", "us-east-2") == 2.0144
    assert price("m7i.xlarge", "us-east-2") == 0.2016


def test_an_unknown_price_is_none_not_a_guess() -> None:
    assert price("g6.8xlarge", "eu-west-1") is None
    assert price("g6.8xlarge", "mars-north-1") is None
    assert price_date("mars-north-1") is None


@pytest.mark.parametrize(
    "region", ["us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1", "ap-northeast-1"]
)
def test_the_large_regions_are_priced_and_dated(region: str) -> None:
    assert price("m7i.xlarge", region)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", price_date(region) or "")


def test_larger_sizes_of_a_family_never_cost_less() -> None:
    for region in priced_regions():
        for smaller, larger in (
            ("g6.8xlarge", "g6.16xlarge"),
            ("g6.12xlarge", "g6.48xlarge"),
            ("m7i.large", "m7i.xlarge"),
        ):
            less, more = price(smaller, region), price(larger, region)
            if less is not None and more is not None:
                assert less < more, (region, smaller)


def test_service_prices_that_are_the_same_everywhere_need_no_region() -> None:
    here, elsewhere = service_prices("us-east-2"), service_prices("mars-north-1")
    assert here.eks_cluster_hour == elsewhere.eks_cluster_hour == 0.10
    assert here.nat_gateway_hour == 0.045
    assert elsewhere.nat_gateway_hour is None


def test_every_gpu_of_every_instance_type_is_described() -> None:
    for each in instance_types():
        if each.gpu:
            assert gpu(each.gpu).gb_per_s > 0


def test_fp8_is_twice_bf16_where_the_hardware_has_it() -> None:
    for each in all_gpus():
        if "fp8" in each.tflops:
            assert each.tflops["fp8"] == pytest.approx(2 * each.tflops["bf16"], rel=0.02)


def test_pinned_images_name_a_version() -> None:
    pinned = versions()
    for image in (pinned.container.image, pinned.kuberay_image, pinned.nvidia_device_plugin_image):
        assert re.search(r":[\w.-]*\d[\w.-]*$", image), image
        assert not image.endswith(":latest")


def test_addons_are_built_for_the_pinned_kubernetes() -> None:
    pinned = versions()
    assert pinned.eks_addons["kube-proxy"].startswith(f"v{pinned.kubernetes}.")
    assert all(re.fullmatch(r"v[\d.]+-eksbuild\.\d+", version) for version in pinned.eks_addons.values())


def test_an_unknown_container_tag_names_the_known_ones() -> None:
    assert container_versions(versions().container.tag) == versions().container
    with pytest.raises(UnknownNameError, match=known_container_tags()[0]):
        container_versions("serve-llm-cuda-v1.1")


def test_the_cuda_container_default_of_the_settings_is_the_tested_one() -> None:
    from kvrelay.settings import Deployment

    assert Deployment().serving.image == versions().container.image


def test_offerings_are_those_of_ec2() -> None:
    from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

    by_region = INSTANCE_TYPE_OFFERINGS["region"]
    assert set(known_regions()) == set(by_region)
    for region, entries in by_region.items():
        names = {entry["InstanceType"] for entry in entries}
        for each in instance_types():
            assert offered(each.name, region) == (each.name in names), (each.name, region)


def test_the_data_says_nothing_of_a_region_or_type_it_does_not_hold() -> None:
    assert offered("g6.8xlarge", "mars-north-1") is None
    assert offered("x1.large", "us-east-2") is None
    assert offered("g6.8xlarge", "us-east-2") is True
    assert "eu-west-1" not in regions_offering("g6.8xlarge")


def test_a_price_is_known_only_where_the_type_is_offered() -> None:
    for region in priced_regions():
        for each in instance_types():
            if price(each.name, region) is not None and region in known_regions():
                assert offered(each.name, region), (each.name, region)
