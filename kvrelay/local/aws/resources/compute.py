"""Launch templates, placement groups and capacity reservations."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class LaunchTemplate(Handler):
    """AWS::EC2::LaunchTemplate: an update adds a version."""

    type = "AWS::EC2::LaunchTemplate"
    unstable = frozenset({"LatestVersionNumber"})

    def create(self, request: Request) -> Made:
        data = request.properties["LaunchTemplateData"]
        self._check(request, data)
        made = request.client("ec2").create_launch_template(
            LaunchTemplateName=request.properties.get("LaunchTemplateName") or request.name(120),
            LaunchTemplateData=data,
            TagSpecifications=_specifications(request),
        )["LaunchTemplate"]
        return self._made(request, made["LaunchTemplateId"])

    def update(self, request: Request) -> Made:
        data = request.properties["LaunchTemplateData"]
        if data != request.previous["LaunchTemplateData"]:
            self._check(request, data)
            request.client("ec2").create_launch_template_version(
                LaunchTemplateId=request.physical_id,
                LaunchTemplateData=data,
                VersionDescription=request.properties.get("VersionDescription", ""),
            )
        return self._made(request, request.physical_id)

    def _check(self, request: Request, data: dict[str, Any]) -> None:
        client = request.client("ec2")
        interfaces = data.get("NetworkInterfaces") or []
        if interfaces and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
            raise ResourceFailedError(
                "Network interfaces and an instance-level security groups may not be specified on "
                "the same request (Service: Ec2, Status Code: 400, Error Code: "
                "InvalidParameterCombination)"
            )
        named = [*(data.get("SecurityGroupIds") or ()), *(g for i in interfaces for g in i.get("Groups", ()))]
        if named:
            client.describe_security_groups(GroupIds=sorted(set(named)))
        group = (data.get("Placement") or {}).get("GroupName")
        if group:
            client.describe_placement_groups(GroupNames=[group])
        target = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget") or {}
        known = request.account.capacity_reservations.get(request.region, {})
        # A reservation named in a template may have been made by hand: only this account's own can be looked up.
        if known and "CapacityReservationId" in target:
            client.describe_capacity_reservations(CapacityReservationIds=[target["CapacityReservationId"]])

    def _made(self, request: Request, identifier: str) -> Made:
        found = request.client("ec2").describe_launch_templates(LaunchTemplateIds=[identifier])
        template = found["LaunchTemplates"][0]
        return Made(
            identifier,
            {
                "LaunchTemplateId": identifier,
                "DefaultVersionNumber": str(template["DefaultVersionNumber"]),
                "LatestVersionNumber": str(template["LatestVersionNumber"]),
            },
        )

    def delete(self, request: Request) -> None:
        try:
            request.client("ec2").delete_launch_template(LaunchTemplateId=request.physical_id)
        except ClientError as error:
            if "NotFound" not in error.response["Error"]["Code"]:
                raise


def _specifications(request: Request) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = list(request.properties.get("TagSpecifications") or ())
    if request.stack_tags and not rows:
        tags = [{"Key": key, "Value": value} for key, value in request.stack_tags.items()]
        rows = [{"ResourceType": "launch-template", "Tags": tags}]
    return rows


@handles
class PlacementGroup(Handler):
    """AWS::EC2::PlacementGroup."""

    type = "AWS::EC2::PlacementGroup"

    def create(self, request: Request) -> Made:
        name, wanted = request.name(255), request.properties
        keys = ("Strategy", "SpreadLevel", "PartitionCount")
        made = request.client("ec2").create_placement_group(
            GroupName=name,
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": request.tag_list()}],
            **{key: wanted[key] for key in keys if key in wanted},
        )["PlacementGroup"]
        return Made(name, {"GroupName": name, "GroupId": made["GroupId"]})

    def update(self, request: Request) -> Made:
        group = request.account.placement_groups[request.region][request.physical_id]
        group["Tags"] = request.tag_list()
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        try:
            request.client("ec2").delete_placement_group(GroupName=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidPlacementGroup.Unknown":
                raise


@handles
class CapacityReservation(Handler):
    """AWS::EC2::CapacityReservation."""

    type = "AWS::EC2::CapacityReservation"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        keys = (
            "InstanceType",
            "InstancePlatform",
            "InstanceCount",
            "AvailabilityZone",
            "Tenancy",
            "EndDateType",
            "InstanceMatchCriteria",
        )
        made = request.client("ec2").create_capacity_reservation(
            **{key: wanted[key] for key in keys if key in wanted}
        )["CapacityReservation"]
        return self._made(made)

    def update(self, request: Request) -> Made:
        request.client("ec2").modify_capacity_reservation(
            CapacityReservationId=request.physical_id, InstanceCount=request.properties["InstanceCount"]
        )
        found = request.account.capacity_reservations[request.region][request.physical_id]
        return self._made(found)

    def _made(self, reservation: dict[str, Any]) -> Made:
        return Made(
            reservation["CapacityReservationId"],
            {
                "Id": reservation["CapacityReservationId"],
                "CapacityReservationArn": reservation["CapacityReservationArn"],
                "AvailabilityZone": reservation["AvailabilityZone"],
                "AvailableInstanceCount": reservation["AvailableInstanceCount"],
                "InstanceType": reservation["InstanceType"],
                "Tenancy": reservation["Tenancy"],
                "TotalInstanceCount": reservation["TotalInstanceCount"],
            },
        )

    def delete(self, request: Request) -> None:
        request.client("ec2").cancel_capacity_reservation(CapacityReservationId=request.physical_id)
