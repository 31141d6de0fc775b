"""ECR in the emulated AWS: repositories and pull-through rules of a stack, through CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.aws.leftovers import leftovers

REGION = "us-east-2"
REPOSITORY = {
    "Type": "AWS::ECR::Repository",
    "Properties": {
        "RepositoryName": "kvrelay/ecr/deep-learning-containers/ray",
        "ImageTagMutability": "IMMUTABLE",
        "ImageScanningConfiguration": {"ScanOnPush": True},
        "EncryptionConfiguration": {"EncryptionType": "AES256"},
        "EmptyOnDelete": True,
    },
}
RULE = {
    "Type": "AWS::ECR::PullThroughCacheRule",
    "Properties": {"EcrRepositoryPrefix": "kvrelay/ecr", "UpstreamRegistryUrl": "public.ecr.aws"},
}
MANIFEST = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"})


@pytest.fixture(scope="module")
def emulated() -> Iterator[EmulatedAws]:
    with EmulatedAws() as account:
        yield account


def client(aws: EmulatedAws, service: str) -> Any:
    return aws.account.client(service, REGION)


@pytest.fixture
def stack(emulated: EmulatedAws) -> Iterator[str]:
    """A stack of a repository and a rule, deleted after the test."""
    cloudformation = client(emulated, "cloudformation")
    template = json.dumps({"Resources": {"Repository": REPOSITORY, "Rule": RULE}})
    cloudformation.create_stack(StackName="images", TemplateBody=template)
    cloudformation.get_waiter("stack_create_complete").wait(StackName="images", WaiterConfig={"Delay": 1})
    yield "images"
    cloudformation.delete_stack(StackName="images")
    cloudformation.get_waiter("stack_delete_complete").wait(StackName="images", WaiterConfig={"Delay": 1})
    kinds = {row.type for row in leftovers(emulated.account, region=REGION)}
    assert not {kind for kind in kinds if kind.startswith("AWS::ECR::")}


def test_a_repository_has_what_its_template_says(emulated: EmulatedAws, stack: str) -> None:
    (found,) = client(emulated, "ecr").describe_repositories()["repositories"]
    assert found["repositoryName"] == "kvrelay/ecr/deep-learning-containers/ray"
    assert found["imageTagMutability"] == "IMMUTABLE"
    assert found["imageScanningConfiguration"] == {"scanOnPush": True}
    assert found["encryptionConfiguration"]["encryptionType"] == "AES256"


def test_a_rule_is_found_by_its_prefix(emulated: EmulatedAws, stack: str) -> None:
    ecr = client(emulated, "ecr")
    (found,) = ecr.describe_pull_through_cache_rules(ecrRepositoryPrefixes=["kvrelay/ecr"])[
        "pullThroughCacheRules"
    ]
    assert (found["upstreamRegistryUrl"], found["upstreamRegistry"]) == ("public.ecr.aws", "ecr-public")
    with pytest.raises(ClientError, match="PullThroughCacheRuleNotFoundException"):
        ecr.describe_pull_through_cache_rules(ecrRepositoryPrefixes=["other"])
    with pytest.raises(ClientError, match="PullThroughCacheRuleAlreadyExistsException"):
        ecr.create_pull_through_cache_rule(
            ecrRepositoryPrefix="kvrelay/ecr", upstreamRegistryUrl="public.ecr.aws"
        )


def test_a_registry_that_wants_credentials_is_refused(emulated: EmulatedAws) -> None:
    with pytest.raises(ClientError, match="needs credentials"):
        client(emulated, "ecr").create_pull_through_cache_rule(
            ecrRepositoryPrefix="hub", upstreamRegistryUrl="registry-1.docker.io"
        )


def test_images_go_with_a_repository_that_is_emptied_on_delete(emulated: EmulatedAws, stack: str) -> None:
    client(emulated, "ecr").put_image(
        repositoryName="kvrelay/ecr/deep-learning-containers/ray", imageManifest=MANIFEST, imageTag="v1"
    )
