"""The facts about CloudFormation are those of its published resource schemas."""

from __future__ import annotations

import json

import pytest

from kvrelay.change import read_synthesis
from kvrelay.change.resources import behaviour
from kvrelay.local.aws.cloudformation.schemas import create_only
from tests.change.conftest import Checkout


@pytest.mark.parametrize("kind", behaviour())
def test_fixed_properties_are_those_of_the_schema(kind: str) -> None:
    published = {".".join(path) for path in create_only(kind, "us-east-2")} - {"Id"}  # Id is no input
    assert set(behaviour()[kind]["fixed"]) == published


def test_every_type_of_the_app_is_known(checkout: Checkout) -> None:
    texts = (
        "{}",
        "network: {nat_gateways: one-per-zone, interface_endpoints: [sts]}",
        "gpu_nodes: {placement_group: true}",
        "{account: '123456789012', images: {mirror: pull-through}}",
    )
    kinds = {
        str(resource["Type"])
        for text in texts
        for template in read_synthesis(checkout(text)).templates.values()
        for resource in json.loads(json.dumps(template))["Resources"].values()
    }
    assert {kind for kind in kinds if kind.startswith("AWS::")} - {*behaviour()} == set()
