"""The network: outlives clusters."""

import aws_cdk as cdk
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_aws.log_groups import log_group, log_handlers_to
from kvrelay_aws.vpc import DeploymentVpc
from stacks.deployment_stack import DeploymentStack, joined


class NetworkStack(DeploymentStack):
    """One VPC with a public and a private subnet in each zone."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment, env: cdk.Environment) -> None:
        super().__init__(
            scope, id, deployment=deployment, description="kvrelay: VPC, subnets, NAT and endpoints", env=env
        )
        self.vpc = DeploymentVpc(
            self,
            "Vpc",
            name=deployment.name,
            network=deployment.network,
            region=deployment.region,
            zones=deployment.zones,
        ).vpc
        log_handlers_to(
            log_group(self, "HandlerLogs", retention_days=deployment.network.flow_log_retention_days), self
        )

        self.output("VpcId", self.vpc.vpc_id, "The VPC")
        self.output(
            "PrivateSubnetIds",
            joined([subnet.subnet_id for subnet in self.vpc.private_subnets]),
            "Private subnets, in the order of zones in deployment.yaml",
        )
