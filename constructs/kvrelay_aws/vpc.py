"""The VPC: public and private subnets in named zones, NAT, endpoints, flow logs."""

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from kvrelay.settings import InterfaceEndpoint, Network
from kvrelay.settings.addresses import SubnetPlan
from kvrelay_aws.acknowledgements import CLOUDFORMATION, acknowledge
from kvrelay_aws.log_groups import log_group

_SERVICES = {
    InterfaceEndpoint.ECR_API: ec2.InterfaceVpcEndpointAwsService.ECR,
    InterfaceEndpoint.ECR_DOCKER: ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER,
    InterfaceEndpoint.STS: ec2.InterfaceVpcEndpointAwsService.STS,
    InterfaceEndpoint.EC2: ec2.InterfaceVpcEndpointAwsService.EC2,
    InterfaceEndpoint.EKS: ec2.InterfaceVpcEndpointAwsService.EKS,
    InterfaceEndpoint.EKS_AUTH: ec2.InterfaceVpcEndpointAwsService.EKS_AUTH,
    InterfaceEndpoint.LOGS: ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    InterfaceEndpoint.SECRETS_MANAGER: ec2.InterfaceVpcEndpointAwsService.SECRETS_MANAGER,
}


class DeploymentVpc(Construct):
    """A VPC as `deployment.yaml` describes it; `vpc` is CDK's own object."""

    def __init__(
        self, scope: Construct, id: str, *, name: str, network: Network, region: str, zones: Sequence[str]
    ) -> None:
        super().__init__(scope, id)
        plan = SubnetPlan.of(network.cidr, len(zones))
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=name,
            ip_addresses=ec2.IpAddresses.cidr(network.cidr),
            availability_zones=list(zones),
            nat_gateways=1 if network.nat_gateways == "one" else len(zones),
            restrict_default_security_group=True,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="public",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=plan.public_prefix_length,
                    map_public_ip_on_launch=False,
                ),
                ec2.SubnetConfiguration(
                    name="private",
                    subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS,
                    cidr_mask=plan.private_prefix_length,
                ),
            ],
            # Weights and image layers come from S3: through the gateway they cost no NAT traffic.
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
        )
        acknowledge(self.vpc, {"W3010": "Zones are named on purpose: nodes must never move."}, CLOUDFORMATION)
        self._tag_subnets_for_load_balancers()
        self._add_flow_logs(network)
        if network.interface_endpoints:
            self._add_interface_endpoints(network)

    def _tag_subnets_for_load_balancers(self) -> None:
        for subnet in self.vpc.public_subnets:
            cdk.Tags.of(subnet).add("kubernetes.io/role/elb", "1")
        for subnet in self.vpc.private_subnets:
            cdk.Tags.of(subnet).add("kubernetes.io/role/internal-elb", "1")

    def _add_flow_logs(self, network: Network) -> None:
        group = log_group(self, "FlowLogGroup", retention_days=network.flow_log_retention_days)
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group))

    def _add_interface_endpoints(self, network: Network) -> None:
        group = ec2.SecurityGroup(
            self,
            "EndpointGroup",
            vpc=self.vpc,
            description="HTTPS to AWS services from inside the VPC",
            allow_all_outbound=False,
        )
        group.add_ingress_rule(ec2.Peer.ipv4(network.cidr), ec2.Port.tcp(443), "HTTPS from the VPC")
        for endpoint in network.interface_endpoints:
            self.vpc.add_interface_endpoint(
                endpoint, service=_SERVICES[endpoint], security_groups=[group], open=False
            )
