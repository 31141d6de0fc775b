"""Images from the account's own registry: what is made, and what pods then pull."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from kvrelay.data import versions

if TYPE_CHECKING:
    from tests.stacks.conftest import Synthesized

OWN = "123456789012.dkr.ecr.us-east-2.amazonaws.com"
ECR = "account: '123456789012'\nimages: {mirror: ecr}\n"
PULL_THROUGH = "account: '123456789012'\nimages: {mirror: pull-through}\n"


def _images(result: Synthesized) -> set[str]:
    """Every image of the manifests that the Serving stack applies."""
    text = json.dumps(list(result.of_type("Custom::AWSCDK-EKS-KubernetesResource").values()))
    return set(re.findall(r'\\"image\\":\s*\\"([^"\\]+)\\"', re.sub(r"\\+", r"\\", text)))


def _repositories(result: Synthesized) -> dict[str, dict[str, Any]]:
    found = result.of_type("AWS::ECR::Repository", "Network").values()
    return {each["Properties"]["RepositoryName"]: each for each in found}


def test_without_a_mirror_nothing_is_made(reference: Synthesized) -> None:
    assert not reference.of_type("AWS::ECR::Repository")
    assert not reference.of_type("AWS::ECR::PullThroughCacheRule")
    assert versions().container.image in _images(reference)


def test_pods_pull_every_public_image_from_the_mirror(synth: Callable[[str], Synthesized]) -> None:
    result = synth(ECR)
    tag = versions().container.tag
    assert f"{OWN}/kvrelay/deep-learning-containers/ray:{tag}" in _images(result)
    registries = {image.partition("/")[0] for image in _images(result)}
    assert registries == {OWN, f"{versions().eks_registry_account}.dkr.ecr.us-east-2.amazonaws.com"}


@pytest.mark.parametrize("overrides", [ECR, PULL_THROUGH])
def test_there_is_a_repository_for_each_image_that_pods_pull(
    synth: Callable[[str], Synthesized], overrides: str
) -> None:
    result = synth(overrides)
    pulled = {image.removeprefix(f"{OWN}/").rpartition(":")[0] for image in _images(result) if OWN in image}
    assert pulled == set(_repositories(result))


@pytest.mark.parametrize(("overrides", "tags"), [(ECR, "IMMUTABLE"), (PULL_THROUGH, "MUTABLE")])
def test_copies_are_scanned_encrypted_and_go_with_the_stack(
    synth: Callable[[str], Synthesized], overrides: str, tags: str
) -> None:
    for each in _repositories(synth(overrides)).values():
        properties = each["Properties"]
        assert properties["ImageTagMutability"] == tags
        assert properties["ImageScanningConfiguration"] == {"ScanOnPush": True}
        assert "EncryptionConfiguration" not in properties, "ECR's own AES-256: the images are public"
        assert properties["EmptyOnDelete"] is True
        assert each["DeletionPolicy"] == "Delete"
        (rule,) = json.loads(properties["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
        assert rule["selection"]["countType"] == "imageCountMoreThan"


def test_ecr_fetches_through_a_rule_for_each_registry_it_can(synth: Callable[[str], Synthesized]) -> None:
    result = synth(PULL_THROUGH)
    rules = {
        each["Properties"]["UpstreamRegistryUrl"]: each["Properties"]["EcrRepositoryPrefix"]
        for each in result.of_type("AWS::ECR::PullThroughCacheRule").values()
    }
    assert rules == {"public.ecr.aws": "kvrelay/ecr", "quay.io": "kvrelay/quay"}
    assert versions().nvidia_device_plugin_image in _images(result), "NVIDIA's registry can't be cached"


def test_nodes_may_fetch_through_ecr_and_may_not_make_repositories(
    synth: Callable[[str], Synthesized],
) -> None:
    """The managed policy as moto keeps it, copied from IAM."""
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    policies = json.loads(aws_managed_policies_data)
    document = policies["AmazonEC2ContainerRegistryPullOnly"]["Document"]
    actions = {action for statement in document["Statement"] for action in statement["Action"]}
    assert "ecr:BatchImportUpstreamImage" in actions
    assert "ecr:CreateRepository" not in actions
    roles = json.dumps(synth(PULL_THROUGH).of_type("AWS::IAM::Role", "Cluster"))
    assert "AmazonEC2ContainerRegistryPullOnly" in roles
