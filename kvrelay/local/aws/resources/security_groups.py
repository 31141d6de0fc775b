"""Security groups and their rules, inline and apart."""

from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.ec2_tags import retag
from kvrelay.local.aws.resources.interfaces import interfaces
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles

_ANYWHERE = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


@handles
class SecurityGroup(Handler):
    """AWS::EC2::SecurityGroup."""

    type = "AWS::EC2::SecurityGroup"

    def create(self, request: Request) -> Made:
        client, wanted = request.client("ec2"), request.properties
        arguments = {"VpcId": wanted["VpcId"]} if "VpcId" in wanted else {}
        request.physical_id = client.create_security_group(
            GroupName=wanted.get("GroupName") or request.name(255),
            Description=wanted["GroupDescription"],
            **arguments,
        )["GroupId"]
        if "SecurityGroupEgress" in wanted:
            # Naming any egress replaces the rule that a new group has.
            client.revoke_security_group_egress(GroupId=request.physical_id, IpPermissions=[_ANYWHERE])
        return self._apply(request, {})

    def update(self, request: Request) -> Made:
        return self._apply(request, request.previous)

    def _apply(self, request: Request, before: dict[str, Any]) -> Made:
        client, group = request.client("ec2"), request.physical_id
        for key, revoke, authorize in (
            ("SecurityGroupIngress", "revoke_security_group_ingress", "authorize_security_group_ingress"),
            ("SecurityGroupEgress", "revoke_security_group_egress", "authorize_security_group_egress"),
        ):
            old, new = before.get(key) or [], request.properties.get(key) or []
            for rule in [rule for rule in old if rule not in new]:
                getattr(client, revoke)(GroupId=group, IpPermissions=[permission(rule)])
            for rule in [rule for rule in new if rule not in old]:
                getattr(client, authorize)(GroupId=group, IpPermissions=[permission(rule)])
        retag(request)
        vpc = client.describe_security_groups(GroupIds=[group])["SecurityGroups"][0].get("VpcId", "")
        return Made(group, {"GroupId": group, "Id": group, "VpcId": vpc})

    def delete(self, request: Request) -> None:
        client, group = request.client("ec2"), request.physical_id
        users = interfaces(client, "group-id", group)
        everyone = client.describe_security_groups()["SecurityGroups"]
        referring = [g["GroupId"] for g in everyone if g["GroupId"] != group and _names(g, group)]
        if users or referring:
            raise ResourceFailedError(
                f"resource {group} has a dependent object "
                "(Service: Ec2, Status Code: 400, Error Code: DependencyViolation)"
            )
        try:
            client.delete_security_group(GroupId=group)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidGroup.NotFound":
                raise


def _names(group: dict[str, Any], other: str) -> bool:
    rules = [*group.get("IpPermissions", ()), *group.get("IpPermissionsEgress", ())]
    return any(pair.get("GroupId") == other for rule in rules for pair in rule.get("UserIdGroupPairs", ()))


def permission(rule: dict[str, Any]) -> dict[str, Any]:
    """A template's rule as EC2's API takes it."""
    described = {"Description": rule["Description"]} if "Description" in rule else {}
    result: dict[str, Any] = {"IpProtocol": str(rule["IpProtocol"])}
    for key in ("FromPort", "ToPort"):
        if key in rule and result["IpProtocol"] != "-1":
            result[key] = int(rule[key])
    group = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    prefix = rule.get("SourcePrefixListId") or rule.get("DestinationPrefixListId")
    if group:
        result["UserIdGroupPairs"] = [{"GroupId": group, **described}]
    elif prefix:
        result["PrefixListIds"] = [{"PrefixListId": prefix, **described}]
    elif "CidrIpv6" in rule:
        result["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"], **described}]
    else:
        result["IpRanges"] = [{"CidrIp": rule["CidrIp"], **described}]
    return result


class _Rule(Handler):
    authorize: str
    revoke: str
    describe: str

    def create(self, request: Request) -> Made:
        client, wanted = request.client("ec2"), request.properties
        peer = wanted.get("SourceSecurityGroupId") or wanted.get("DestinationSecurityGroupId")
        client.describe_security_groups(GroupIds=sorted({g for g in (wanted["GroupId"], peer) if g}))
        made = getattr(client, self.authorize)(GroupId=wanted["GroupId"], IpPermissions=[permission(wanted)])
        rules = made.get("SecurityGroupRules") or [{}]
        identifier = rules[0].get("SecurityGroupRuleId") or request.name()
        return Made(identifier, {"Id": identifier})

    def update(self, request: Request) -> Made:
        getattr(request.client("ec2"), self.describe)(
            GroupId=request.properties["GroupId"], IpPermissions=[permission(request.properties)]
        )
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        wanted = request.properties
        try:
            getattr(request.client("ec2"), self.revoke)(
                GroupId=wanted["GroupId"], IpPermissions=[permission(wanted)]
            )
        except ClientError as error:
            if "NotFound" not in error.response["Error"]["Code"]:
                raise


@handles
class SecurityGroupIngress(_Rule):
    """AWS::EC2::SecurityGroupIngress."""

    type = "AWS::EC2::SecurityGroupIngress"
    authorize = "authorize_security_group_ingress"
    revoke = "revoke_security_group_ingress"
    describe = "update_security_group_rule_descriptions_ingress"


@handles
class SecurityGroupEgress(_Rule):
    """AWS::EC2::SecurityGroupEgress."""

    type = "AWS::EC2::SecurityGroupEgress"
    authorize = "authorize_security_group_egress"
    revoke = "revoke_security_group_egress"
    describe = "update_security_group_rule_descriptions_egress"
