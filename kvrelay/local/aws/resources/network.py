"""VPCs, subnets and their route tables."""

from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.ec2_tags import retag
from kvrelay.local.aws.resources.interfaces import interfaces
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


def by_vpc(client: Any, operation: str, key: str, vpc_id: str) -> list[dict[str, Any]]:
    """What of a kind lies in a VPC."""
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}]
    name = "Filter" if operation == "describe_nat_gateways" else "Filters"
    found: list[dict[str, Any]] = getattr(client, operation)(**{name: filters})[key]
    return found


@handles
class Vpc(Handler):
    """AWS::EC2::VPC."""

    type = "AWS::EC2::VPC"

    def create(self, request: Request) -> Made:
        client, wanted = request.client("ec2"), request.properties
        vpc = client.create_vpc(
            CidrBlock=wanted["CidrBlock"], InstanceTenancy=wanted.get("InstanceTenancy", "default")
        )["Vpc"]
        request.physical_id = vpc["VpcId"]
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, wanted, vpc_id = request.client("ec2"), request.properties, request.physical_id
        client.modify_vpc_attribute(
            VpcId=vpc_id, EnableDnsSupport={"Value": wanted.get("EnableDnsSupport", True)}
        )
        client.modify_vpc_attribute(
            VpcId=vpc_id, EnableDnsHostnames={"Value": wanted.get("EnableDnsHostnames", False)}
        )
        retag(request)
        groups = by_vpc(client, "describe_security_groups", "SecurityGroups", vpc_id)
        acls = by_vpc(client, "describe_network_acls", "NetworkAcls", vpc_id)
        vpc = client.describe_vpcs(VpcIds=[vpc_id])["Vpcs"][0]
        return Made(
            vpc_id,
            {
                "VpcId": vpc_id,
                "CidrBlock": vpc["CidrBlock"],
                "CidrBlockAssociations": [a["AssociationId"] for a in vpc.get("CidrBlockAssociationSet", ())],
                "DefaultNetworkAcl": next(acl["NetworkAclId"] for acl in acls if acl["IsDefault"]),
                "DefaultSecurityGroup": next(g["GroupId"] for g in groups if g["GroupName"] == "default"),
                "Ipv6CidrBlocks": [],
            },
        )

    def delete(self, request: Request) -> None:
        client, vpc_id = request.client("ec2"), request.physical_id
        attached = [{"Name": "attachment.vpc-id", "Values": [vpc_id]}]
        groups = by_vpc(client, "describe_security_groups", "SecurityGroups", vpc_id)
        if (
            client.describe_internet_gateways(Filters=attached)["InternetGateways"]
            or [group for group in groups if group["GroupName"] != "default"]
            or [e for e in by_vpc(client, "describe_vpc_endpoints", "VpcEndpoints", vpc_id) if _alive(e)]
            or [n for n in by_vpc(client, "describe_nat_gateways", "NatGateways", vpc_id) if _alive(n)]
            or interfaces(client, "vpc-id", vpc_id)
        ):
            raise ResourceFailedError(
                f"The vpc '{vpc_id}' has dependencies and cannot be deleted. "
                "(Service: Ec2, Status Code: 400, Error Code: DependencyViolation)"
            )
        try:
            client.delete_vpc(VpcId=vpc_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "InvalidVpcID.NotFound":
                raise

    def replaces(self, before: dict[str, Any], after: dict[str, Any]) -> set[str]:
        """Dedicated tenancy can be left in place, but not entered."""
        old, new = before.get("InstanceTenancy", "default"), after.get("InstanceTenancy", "default")
        return {"InstanceTenancy"} if old != new and new == "dedicated" else set()


def _alive(resource: dict[str, Any]) -> bool:
    return str(resource.get("State", "")).lower() not in ("deleted", "deleting")


@handles
class Subnet(Handler):
    """AWS::EC2::Subnet."""

    type = "AWS::EC2::Subnet"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        arguments = {k: wanted[k] for k in ("VpcId", "CidrBlock", "AvailabilityZone") if k in wanted}
        subnet = request.client("ec2").create_subnet(**arguments)["Subnet"]
        request.physical_id = subnet["SubnetId"]
        return self.update(request)

    def update(self, request: Request) -> Made:
        client = request.client("ec2")
        client.modify_subnet_attribute(
            SubnetId=request.physical_id,
            MapPublicIpOnLaunch={"Value": request.properties.get("MapPublicIpOnLaunch", False)},
        )
        retag(request)
        subnet = client.describe_subnets(SubnetIds=[request.physical_id])["Subnets"][0]
        acls = client.describe_network_acls(
            Filters=[{"Name": "association.subnet-id", "Values": [request.physical_id]}]
        )["NetworkAcls"]
        associations = [
            a for acl in acls for a in acl["Associations"] if a["SubnetId"] == request.physical_id
        ]
        return Made(
            request.physical_id,
            {
                "SubnetId": request.physical_id,
                "AvailabilityZone": subnet["AvailabilityZone"],
                "AvailabilityZoneId": subnet.get("AvailabilityZoneId", ""),
                "CidrBlock": subnet["CidrBlock"],
                "VpcId": subnet["VpcId"],
                "Ipv6CidrBlocks": [],
                "NetworkAclAssociationId": associations[0]["NetworkAclAssociationId"] if associations else "",
            },
        )

    def delete(self, request: Request) -> None:
        client, subnet_id = request.client("ec2"), request.physical_id
        if interfaces(client, "subnet-id", subnet_id):
            raise ResourceFailedError(
                f"The subnet '{subnet_id}' has dependencies and cannot be deleted. "
                "(Service: Ec2, Status Code: 400, Error Code: DependencyViolation)"
            )
        client.delete_subnet(SubnetId=subnet_id)


@handles
class RouteTable(Handler):
    """AWS::EC2::RouteTable."""

    type = "AWS::EC2::RouteTable"

    def create(self, request: Request) -> Made:
        table = request.client("ec2").create_route_table(VpcId=request.properties["VpcId"])["RouteTable"]
        request.physical_id = table["RouteTableId"]
        return self.update(request)

    def update(self, request: Request) -> Made:
        retag(request)
        return Made(request.physical_id, {"RouteTableId": request.physical_id})

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_route_table(RouteTableId=request.physical_id)


@handles
class SubnetRouteTableAssociation(Handler):
    """AWS::EC2::SubnetRouteTableAssociation."""

    type = "AWS::EC2::SubnetRouteTableAssociation"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        made = request.client("ec2").associate_route_table(
            RouteTableId=wanted["RouteTableId"], SubnetId=wanted["SubnetId"]
        )
        return Made(made["AssociationId"], {"Id": made["AssociationId"]})

    def delete(self, request: Request) -> None:
        request.client("ec2").disassociate_route_table(AssociationId=request.physical_id)


_TARGETS = {
    "GatewayId",
    "NatGatewayId",
    "InstanceId",
    "NetworkInterfaceId",
    "TransitGatewayId",
    "VpcPeeringConnectionId",
    "EgressOnlyInternetGatewayId",
}


@handles
class Route(Handler):
    """AWS::EC2::Route."""

    type = "AWS::EC2::Route"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        if "VpcEndpointId" in wanted:
            raise ResourceFailedError("AWS::EC2::Route: VpcEndpointId as a target is not emulated")
        request.client("ec2").create_route(
            **_destination(wanted), **{key: wanted[key] for key in _TARGETS & wanted.keys()}
        )
        block = str(next(iter(_destination(wanted, table=False).values())))
        return Made(f"{wanted['RouteTableId']}|{block}", {"CidrBlock": block})

    def update(self, request: Request) -> Made:
        wanted = request.properties
        request.client("ec2").replace_route(
            **_destination(wanted), **{key: wanted[key] for key in _TARGETS & wanted.keys()}
        )
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_route(**_destination(request.properties))


def _destination(wanted: dict[str, Any], *, table: bool = True) -> dict[str, Any]:
    keys = ["DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId"]
    return {key: wanted[key] for key in [*keys, *(["RouteTableId"] if table else [])] if key in wanted}
