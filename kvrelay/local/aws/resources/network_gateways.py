"""Ways into and out of a VPC: gateways, addresses, endpoints, and the flow logs that watch them."""

from typing import Any

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.ec2_tags import retag
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class InternetGateway(Handler):
    """AWS::EC2::InternetGateway."""

    type = "AWS::EC2::InternetGateway"

    def create(self, request: Request) -> Made:
        made = request.client("ec2").create_internet_gateway()["InternetGateway"]
        request.physical_id = made["InternetGatewayId"]
        return self.update(request)

    def update(self, request: Request) -> Made:
        retag(request)
        return Made(request.physical_id, {"InternetGatewayId": request.physical_id})

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_internet_gateway(InternetGatewayId=request.physical_id)


@handles
class VpcGatewayAttachment(Handler):
    """AWS::EC2::VPCGatewayAttachment."""

    type = "AWS::EC2::VPCGatewayAttachment"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        if "InternetGatewayId" not in wanted:
            raise ResourceFailedError("AWS::EC2::VPCGatewayAttachment: only InternetGatewayId is emulated")
        request.client("ec2").attach_internet_gateway(
            InternetGatewayId=wanted["InternetGatewayId"], VpcId=wanted["VpcId"]
        )
        return Made(f"IGW|{wanted['VpcId']}", {"AttachmentType": "IGW"})

    def delete(self, request: Request) -> None:
        client, wanted = request.client("ec2"), request.properties
        addresses = client.describe_nat_gateways(Filter=[{"Name": "vpc-id", "Values": [wanted["VpcId"]]}])
        if [n for n in addresses["NatGateways"] if n["State"] not in ("deleted", "deleting")]:
            raise ResourceFailedError(
                f"Network {wanted['VpcId']} has some mapped public address(es). Please unmap "
                "those public address(es) before detaching the gateway. "
                "(Service: Ec2, Status Code: 400, Error Code: DependencyViolation)"
            )
        client.detach_internet_gateway(InternetGatewayId=wanted["InternetGatewayId"], VpcId=wanted["VpcId"])


@handles
class ElasticIp(Handler):
    """AWS::EC2::EIP."""

    type = "AWS::EC2::EIP"

    def create(self, request: Request) -> Made:
        made = request.client("ec2").allocate_address(Domain="vpc")
        request.attributes = {"AllocationId": made["AllocationId"], "PublicIp": made["PublicIp"]}
        request.physical_id = made["PublicIp"]
        return self.update(request)

    def update(self, request: Request) -> Made:
        address, request.physical_id = request.physical_id, request.attributes["AllocationId"]
        retag(request)
        return Made(address, request.attributes)

    def delete(self, request: Request) -> None:
        client, allocation = request.client("ec2"), request.attributes["AllocationId"]
        gateways = client.describe_nat_gateways()["NatGateways"]
        if any(
            address.get("AllocationId") == allocation
            for gateway in gateways
            if gateway["State"] not in ("deleted", "deleting")
            for address in gateway["NatGatewayAddresses"]
        ):
            raise ResourceFailedError(
                f"Address {request.physical_id} is in use. "
                "(Service: Ec2, Status Code: 400, Error Code: InvalidIPAddress.InUse)"
            )
        client.release_address(AllocationId=allocation)


@handles
class NatGateway(Handler):
    """AWS::EC2::NatGateway."""

    type = "AWS::EC2::NatGateway"

    def create(self, request: Request) -> Made:
        client, wanted = request.client("ec2"), request.properties
        subnet = client.describe_subnets(SubnetIds=[wanted["SubnetId"]])["Subnets"][0]
        is_public = wanted.get("ConnectivityType", "public") == "public"
        attached = [{"Name": "attachment.vpc-id", "Values": [subnet["VpcId"]]}]
        if is_public and not client.describe_internet_gateways(Filters=attached)["InternetGateways"]:
            raise ResourceFailedError(f"Network {subnet['VpcId']} has no Internet gateway attached")
        arguments = {k: wanted[k] for k in ("AllocationId", "ConnectivityType", "SubnetId") if k in wanted}
        made = client.create_nat_gateway(**arguments)["NatGateway"]
        request.physical_id = made["NatGatewayId"]
        request.attributes = {
            "NatGatewayId": made["NatGatewayId"],
            "EniId": next((a.get("NetworkInterfaceId", "") for a in made["NatGatewayAddresses"]), ""),
        }
        return self.update(request)

    def update(self, request: Request) -> Made:
        retag(request)
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        client = request.client("ec2")
        client.delete_nat_gateway(NatGatewayId=request.physical_id)
        if request.attributes.get("EniId"):
            found = client.describe_network_interfaces(
                Filters=[{"Name": "network-interface-id", "Values": [request.attributes["EniId"]]}]
            )["NetworkInterfaces"]
            for interface in found:
                client.delete_network_interface(NetworkInterfaceId=interface["NetworkInterfaceId"])


@handles
class VpcEndpoint(Handler):
    """AWS::EC2::VPCEndpoint."""

    type = "AWS::EC2::VPCEndpoint"

    def create(self, request: Request) -> Made:
        client, wanted = request.client("ec2"), request.properties
        keys = (
            "VpcId",
            "ServiceName",
            "VpcEndpointType",
            "RouteTableIds",
            "SubnetIds",
            "SecurityGroupIds",
            "PrivateDnsEnabled",
        )
        if "SubnetIds" in wanted:
            client.describe_subnets(SubnetIds=wanted["SubnetIds"])
        if "SecurityGroupIds" in wanted:
            client.describe_security_groups(GroupIds=wanted["SecurityGroupIds"])
        made = client.create_vpc_endpoint(**{k: wanted[k] for k in keys if k in wanted})["VpcEndpoint"]
        request.physical_id = made["VpcEndpointId"]
        request.attributes = {
            "Id": made["VpcEndpointId"],
            "CreationTimestamp": str(made["CreationTimestamp"]),
            "DnsEntries": [f"{e.get('HostedZoneId', '')}:{e['DnsName']}" for e in made.get("DnsEntries", ())],
            "NetworkInterfaceIds": made.get("NetworkInterfaceIds", []),
        }
        return self._tagged(request)

    def update(self, request: Request) -> Made:
        arguments: dict[str, Any] = {}
        for key, add, remove in (
            ("RouteTableIds", "AddRouteTableIds", "RemoveRouteTableIds"),
            ("SubnetIds", "AddSubnetIds", "RemoveSubnetIds"),
            ("SecurityGroupIds", "AddSecurityGroupIds", "RemoveSecurityGroupIds"),
        ):
            old, new = set(request.previous.get(key, ())), set(request.properties.get(key, ()))
            arguments |= {add: sorted(new - old)} if new - old else {}
            arguments |= {remove: sorted(old - new)} if old - new else {}
        if arguments:
            request.client("ec2").modify_vpc_endpoint(VpcEndpointId=request.physical_id, **arguments)
        return self._tagged(request)

    def _tagged(self, request: Request) -> Made:
        retag(request)
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        client = request.client("ec2")
        client.delete_vpc_endpoints(VpcEndpointIds=[request.physical_id])


@handles
class FlowLog(Handler):
    """AWS::EC2::FlowLog."""

    type = "AWS::EC2::FlowLog"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        keys = (
            "DeliverLogsPermissionArn",
            "LogGroupName",
            "TrafficType",
            "LogDestinationType",
            "LogDestination",
            "LogFormat",
            "MaxAggregationInterval",
            "ResourceType",
        )
        made = request.client("ec2").create_flow_logs(
            ResourceIds=[wanted["ResourceId"]], **{k: wanted[k] for k in keys if k in wanted}
        )
        if made.get("Unsuccessful"):
            raise ResourceFailedError(str(made["Unsuccessful"][0]["Error"]["Message"]))
        request.physical_id = made["FlowLogIds"][0]
        return self.update(request)

    def update(self, request: Request) -> Made:
        retag(request)
        return Made(request.physical_id, {"Id": request.physical_id})

    def delete(self, request: Request) -> None:
        request.client("ec2").delete_flow_logs(FlowLogIds=[request.physical_id])
