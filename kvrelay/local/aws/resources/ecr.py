"""ECR repositories, and rules that fetch from other registries."""

import json
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Repository(Handler):
    """AWS::ECR::Repository."""

    type = "AWS::ECR::Repository"

    def create(self, request: Request) -> Made:
        name = request.properties.get("RepositoryName") or request.name(255, lower=True)
        encryption = request.properties.get("EncryptionConfiguration")
        request.client("ecr").create_repository(
            repositoryName=name,
            tags=request.tag_list(),
            **({"encryptionConfiguration": lower_keys(encryption)} if encryption else {}),
        )
        request.physical_id = name
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("ecr"), request.physical_id, request.properties
        if "ImageTagMutability" in wanted:
            client.put_image_tag_mutability(
                repositoryName=name, imageTagMutability=wanted["ImageTagMutability"]
            )
        if "ImageScanningConfiguration" in wanted:
            scan = str(wanted["ImageScanningConfiguration"].get("ScanOnPush")).lower() == "true"
            client.put_image_scanning_configuration(
                repositoryName=name, imageScanningConfiguration={"scanOnPush": scan}
            )
        if "RepositoryPolicyText" in wanted:
            client.set_repository_policy(
                repositoryName=name, policyText=json.dumps(wanted["RepositoryPolicyText"])
            )
        elif "RepositoryPolicyText" in request.previous:
            client.delete_repository_policy(repositoryName=name)
        if "LifecyclePolicyText" in wanted.get("LifecyclePolicy", {}):
            client.put_lifecycle_policy(
                repositoryName=name, lifecyclePolicyText=wanted["LifecyclePolicy"]["LifecyclePolicyText"]
            )
        found = client.describe_repositories(repositoryNames=[name])["repositories"][0]
        client.tag_resource(resourceArn=found["repositoryArn"], tags=request.tag_list())
        return Made(name, {"Arn": found["repositoryArn"], "RepositoryUri": found["repositoryUri"]})

    def delete(self, request: Request) -> None:
        force = str(request.properties.get("EmptyOnDelete")).lower() == "true"
        try:
            request.client("ecr").delete_repository(repositoryName=request.physical_id, force=force)
        except ClientError as error:
            if error.response["Error"]["Code"] != "RepositoryNotFoundException":
                raise


@handles
class PullThroughCacheRule(Handler):
    """AWS::ECR::PullThroughCacheRule. Nothing of it changes in place."""

    type = "AWS::ECR::PullThroughCacheRule"

    def create(self, request: Request) -> Made:
        prefix = request.properties["EcrRepositoryPrefix"]
        request.client("ecr").create_pull_through_cache_rule(**lower_keys(request.properties))
        return Made(prefix)

    def delete(self, request: Request) -> None:
        try:
            request.client("ecr").delete_pull_through_cache_rule(ecrRepositoryPrefix=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "PullThroughCacheRuleNotFoundException":
                raise


def lower_keys(properties: dict[str, Any]) -> dict[str, Any]:
    """CloudFormation's properties as ECR's own arguments: EncryptionType is encryptionType there."""
    return {key[0].lower() + key[1:]: value for key, value in properties.items()}
