"""ECR repositories."""

import json

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Repository(Handler):
    """AWS::ECR::Repository."""

    type = "AWS::ECR::Repository"

    def create(self, request: Request) -> Made:
        name = request.properties.get("RepositoryName") or request.name(255, lower=True)
        request.client("ecr").create_repository(repositoryName=name, tags=request.tag_list())
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
        if "LifecyclePolicyText" in wanted.get("LifecyclePolicy", {}):
            client.put_lifecycle_policy(
                repositoryName=name, lifecyclePolicyText=wanted["LifecyclePolicy"]["LifecyclePolicyText"]
            )
        found = client.describe_repositories(repositoryNames=[name])["repositories"][0]
        return Made(name, {"Arn": found["repositoryArn"], "RepositoryUri": found["repositoryUri"]})

    def delete(self, request: Request) -> None:
        force = bool(request.properties.get("EmptyOnDelete"))
        try:
            request.client("ecr").delete_repository(repositoryName=request.physical_id, force=force)
        except ClientError as error:
            if error.response["Error"]["Code"] != "RepositoryNotFoundException":
                raise
