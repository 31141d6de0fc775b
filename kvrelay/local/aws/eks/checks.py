"""Whether what an EKS request names exists, answered in EKS's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import AwsError

if TYPE_CHECKING:
    from kvrelay.local.aws.eks.state import EksRegion


def invalid(message: str) -> AwsError:
    """EKS's answer to a parameter that can't be right."""
    return AwsError("InvalidParameterException", message)


def role(region: EksRegion, arn: str, service: str) -> None:
    """The role exists and trusts `service`."""
    try:
        found = region.account.client("iam", region.region).get_role(RoleName=arn.split("/")[-1])["Role"]
    except ClientError as error:
        raise invalid(
            f"Role with arn: {arn}, could not be assumed because it does not exist or the trusted entity "
            "is not correct"
        ) from error
    if service not in str(found["AssumeRolePolicyDocument"]):
        raise invalid(
            f"Role with arn: {arn}, could not be assumed because it does not exist or the trusted entity "
            "is not correct"
        )


def subnets(region: EksRegion, ids: list[str]) -> list[dict[str, Any]]:
    """The subnets exist."""
    try:
        found: list[dict[str, Any]] = region.ec2.describe_subnets(SubnetIds=ids)["Subnets"]
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error
    return found


def groups(region: EksRegion, ids: list[str]) -> None:
    """The security groups exist."""
    if not ids:
        return
    try:
        region.ec2.describe_security_groups(GroupIds=ids)
    except ClientError as error:
        raise invalid(error.response["Error"]["Message"]) from error


def key(region: EksRegion, arn: str) -> None:
    """The KMS key exists and can be used."""
    try:
        found = region.account.client("kms", region.region).describe_key(KeyId=arn)["KeyMetadata"]
    except ClientError as error:
        raise invalid(f"Key {arn} does not exist") from error
    if not found["Enabled"]:
        raise invalid(f"The KMS key {arn} is not enabled")


def launch_template(region: EksRegion, given: dict[str, Any]) -> dict[str, Any]:
    """The launch template's data at the version named."""
    which = {"LaunchTemplateId": given["id"]} if "id" in given else {"LaunchTemplateName": given["name"]}
    version = str(given.get("version") or "$Default")
    try:
        found = region.ec2.describe_launch_template_versions(**which, Versions=[version])
    except ClientError as error:
        raise invalid(
            f"Launch template details can't be null for Custom ami type node group: "
            f"{error.response['Error']['Message']}"
        ) from error
    versions = found["LaunchTemplateVersions"]
    if not versions:
        raise invalid(
            f"Could not find the specified version {version} for the launch template with ID "
            f"{given.get('id') or given.get('name')}."
        )
    data: dict[str, Any] = versions[0]["LaunchTemplateData"]
    return {
        **data,
        "_version": str(versions[0]["VersionNumber"]),
        "_id": versions[0]["LaunchTemplateId"],
        "_name": versions[0]["LaunchTemplateName"],
    }
