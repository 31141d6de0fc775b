"""The network, and copies of images: what outlives clusters."""

import aws_cdk as cdk
from constructs import Construct

from kvrelay.settings import Deployment, ImageMirror
from kvrelay_aws.image_mirror import ImageRepositories
from kvrelay_aws.log_groups import log_group, log_handlers_to
from kvrelay_aws.vpc import DeploymentVpc
from stacks.deployment_stack import DeploymentStack, joined


class NetworkStack(DeploymentStack):
    """One VPC with a public and a private subnet in each zone; repositories where images are mirrored."""

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
        ImageRepositories(self, "Images", mirror=ImageMirror.of(deployment))
        log_handlers_to(
            log_group(self, "HandlerLogs", retention_days=deployment.network.flow_log_retention_days), self
        )

        self.output("VpcId", self.vpc.vpc_id, "The VPC")
        self.output(
            "PrivateSubnetIds",
            joined([subnet.subnet_id for subnet in self.vpc.private_subnets]),
            "Private subnets, in the order of zones in deployment.yaml",
        )
