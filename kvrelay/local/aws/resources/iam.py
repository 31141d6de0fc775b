"""IAM roles, policies, instance profiles and identity providers."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.account import PARTITION
from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


def _text(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)


def _is_missing(error: ClientError) -> bool:
    return bool(error.response["Error"]["Code"] in ("NoSuchEntity", "NoSuchEntityException"))


@handles
class Role(Handler):
    """AWS::IAM::Role."""

    type = "AWS::IAM::Role"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        request.physical_id = wanted.get("RoleName") or request.name(64)
        arguments: dict[str, Any] = {
            key: wanted[key] for key in ("Path", "Description", "MaxSessionDuration") if key in wanted
        }
        request.client("iam").create_role(
            RoleName=request.physical_id,
            AssumeRolePolicyDocument=_text(wanted["AssumeRolePolicyDocument"]),
            **arguments,
        )
        return self._apply(request, {})

    def update(self, request: Request) -> Made:
        client, wanted, name = request.client("iam"), request.properties, request.physical_id
        client.update_assume_role_policy(
            RoleName=name, PolicyDocument=_text(wanted["AssumeRolePolicyDocument"])
        )
        client.update_role(
            RoleName=name,
            Description=wanted.get("Description", ""),
            MaxSessionDuration=wanted.get("MaxSessionDuration", 3600),
        )
        return self._apply(request, request.previous)

    def _apply(self, request: Request, before: dict[str, Any]) -> Made:
        client, wanted, name = request.client("iam"), request.properties, request.physical_id
        old, new = set(before.get("ManagedPolicyArns", ())), set(wanted.get("ManagedPolicyArns", ()))
        for arn in sorted(old - new):
            client.detach_role_policy(RoleName=name, PolicyArn=arn)
        for arn in sorted(new - old):
            attach(request, "attach_role_policy", arn, RoleName=name)
        kept = {policy["PolicyName"] for policy in wanted.get("Policies", ())}
        for policy in before.get("Policies", ()):
            if policy["PolicyName"] not in kept:
                client.delete_role_policy(RoleName=name, PolicyName=policy["PolicyName"])
        for policy in wanted.get("Policies", ()):
            client.put_role_policy(
                RoleName=name, PolicyName=policy["PolicyName"], PolicyDocument=_text(policy["PolicyDocument"])
            )
        tags = client.list_role_tags(RoleName=name)["Tags"]
        gone = [tag["Key"] for tag in tags if tag["Key"] not in request.tags()]
        if gone:
            client.untag_role(RoleName=name, TagKeys=gone)
        if request.tags():
            client.tag_role(RoleName=name, Tags=request.tag_list())
        role = client.get_role(RoleName=name)["Role"]
        return Made(name, {"Arn": role["Arn"], "RoleId": role["RoleId"]})

    def delete(self, request: Request) -> None:
        client, name = request.client("iam"), request.physical_id
        for arn in request.properties.get("ManagedPolicyArns", ()):
            _ignore_missing(client.detach_role_policy, RoleName=name, PolicyArn=arn)
        for policy in request.properties.get("Policies", ()):
            _ignore_missing(client.delete_role_policy, RoleName=name, PolicyName=policy["PolicyName"])
        profiles = _ignore_missing(client.list_instance_profiles_for_role, RoleName=name)
        if profiles and profiles["InstanceProfiles"]:
            raise ResourceFailedError(
                "Cannot delete entity, must remove roles from instance profile first. "
                "(Service: Iam, Status Code: 409, Error Code: DeleteConflict)"
            )
        _ignore_missing(client.delete_role, RoleName=name)


def attach(request: Request, operation: str, arn: str, **target: str) -> None:
    """Attaches a managed policy; one of AWS's that the emulated account lacks is made, empty."""
    client = request.client("iam")
    try:
        getattr(client, operation)(PolicyArn=arn, **target)
    except ClientError as error:
        if not _is_missing(error) or not arn.startswith(f"arn:{PARTITION}:iam::aws:policy/"):
            raise
        raise ResourceFailedError(
            f"Policy {arn} does not exist or is not attachable. "
            "(Service: Iam, Status Code: 404, Error Code: NoSuchEntity)"
        ) from error


def _ignore_missing(operation: Any, **arguments: Any) -> Any:
    try:
        return operation(**arguments)
    except ClientError as error:
        if not _is_missing(error):
            raise
        return None


@handles
class Policy(Handler):
    """AWS::IAM::Policy: an inline policy of roles."""

    type = "AWS::IAM::Policy"

    def create(self, request: Request) -> Made:
        return self._put(request)

    def update(self, request: Request) -> Made:
        client = request.client("iam")
        same_name = request.previous["PolicyName"] == request.properties["PolicyName"]
        kept = set(request.properties.get("Roles", ())) if same_name else set()
        for role in set(request.previous.get("Roles", ())) - kept:
            _ignore_missing(
                client.delete_role_policy, RoleName=role, PolicyName=request.previous["PolicyName"]
            )
        return self._put(request)

    def _put(self, request: Request) -> Made:
        wanted = request.properties
        if wanted.get("Users") or wanted.get("Groups"):
            raise ResourceFailedError("AWS::IAM::Policy: Users and Groups are not emulated, only Roles")
        for role in wanted.get("Roles", ()):
            request.client("iam").put_role_policy(
                RoleName=role, PolicyName=wanted["PolicyName"], PolicyDocument=_text(wanted["PolicyDocument"])
            )
        return Made(wanted["PolicyName"], {"Id": wanted["PolicyName"]})

    def delete(self, request: Request) -> None:
        for role in request.properties.get("Roles", ()):
            _ignore_missing(
                request.client("iam").delete_role_policy,
                RoleName=role,
                PolicyName=request.properties["PolicyName"],
            )


@handles
class ManagedPolicy(Handler):
    """AWS::IAM::ManagedPolicy."""

    type = "AWS::IAM::ManagedPolicy"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        arguments = {key: wanted[key] for key in ("Path", "Description") if key in wanted}
        made = request.client("iam").create_policy(
            PolicyName=wanted.get("ManagedPolicyName") or request.name(128),
            PolicyDocument=_text(wanted["PolicyDocument"]),
            **arguments,
        )["Policy"]
        for role in wanted.get("Roles", ()):
            request.client("iam").attach_role_policy(RoleName=role, PolicyArn=made["Arn"])
        return Made(made["Arn"], {"PolicyArn": made["Arn"], "PolicyId": made["PolicyId"]})

    def update(self, request: Request) -> Made:
        client, arn = request.client("iam"), request.physical_id
        old, new = set(request.previous.get("Roles", ())), set(request.properties.get("Roles", ()))
        for role in old - new:
            _ignore_missing(client.detach_role_policy, RoleName=role, PolicyArn=arn)
        for role in new - old:
            client.attach_role_policy(RoleName=role, PolicyArn=arn)
        for version in client.list_policy_versions(PolicyArn=arn)["Versions"]:
            if not version["IsDefaultVersion"]:
                client.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        client.create_policy_version(
            PolicyArn=arn, PolicyDocument=_text(request.properties["PolicyDocument"]), SetAsDefault=True
        )
        return Made(arn, request.attributes)

    def delete(self, request: Request) -> None:
        client, arn = request.client("iam"), request.physical_id
        for role in request.properties.get("Roles", ()):
            _ignore_missing(client.detach_role_policy, RoleName=role, PolicyArn=arn)
        versions = _ignore_missing(client.list_policy_versions, PolicyArn=arn)
        for version in versions["Versions"] if versions else ():
            if not version["IsDefaultVersion"]:
                client.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
        _ignore_missing(client.delete_policy, PolicyArn=arn)


@handles
class InstanceProfile(Handler):
    """AWS::IAM::InstanceProfile."""

    type = "AWS::IAM::InstanceProfile"

    def create(self, request: Request) -> Made:
        client, wanted = request.client("iam"), request.properties
        name = wanted.get("InstanceProfileName") or request.name(128)
        profile = client.create_instance_profile(InstanceProfileName=name, Path=wanted.get("Path", "/"))
        for role in wanted["Roles"]:
            client.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return Made(name, {"Arn": profile["InstanceProfile"]["Arn"]})

    def update(self, request: Request) -> Made:
        client, name = request.client("iam"), request.physical_id
        for role in request.previous["Roles"]:
            client.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=role)
        for role in request.properties["Roles"]:
            client.add_role_to_instance_profile(InstanceProfileName=name, RoleName=role)
        return Made(name, request.attributes)

    def delete(self, request: Request) -> None:
        client, name = request.client("iam"), request.physical_id
        for role in request.properties["Roles"]:
            _ignore_missing(client.remove_role_from_instance_profile, InstanceProfileName=name, RoleName=role)
        _ignore_missing(client.delete_instance_profile, InstanceProfileName=name)


@handles
class OidcProvider(Handler):
    """AWS::IAM::OIDCProvider."""

    type = "AWS::IAM::OIDCProvider"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        arn = request.client("iam").create_open_id_connect_provider(
            Url=wanted["Url"],
            ClientIDList=wanted.get("ClientIdList", []),
            ThumbprintList=wanted.get("ThumbprintList") or ["9e99a48a9960b14926bb7f3b02e22da2b0ab7280"],
        )["OpenIDConnectProviderArn"]
        return Made(arn, {"Arn": arn})

    def update(self, request: Request) -> Made:
        client, arn = request.client("iam"), request.physical_id
        if request.properties.get("ThumbprintList"):
            client.update_open_id_connect_provider_thumbprint(
                OpenIDConnectProviderArn=arn, ThumbprintList=request.properties["ThumbprintList"]
            )
        return Made(arn, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("iam").delete_open_id_connect_provider(OpenIDConnectProviderArn=request.physical_id)
