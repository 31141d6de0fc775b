"""The security group of EFA traffic: everything to and from itself."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct


class EfaSecurityGroup(Construct):
    """EFA bypasses IP, so its rules must name the group itself, on the way out too.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html
    """

    def __init__(self, scope: Construct, id: str, *, vpc: ec2.IVpc) -> None:
        super().__init__(scope, id)
        self.security_group = ec2.SecurityGroup(
            self,
            "Group",
            vpc=vpc,
            description="EFA traffic between GPU nodes; image pulls and AWS APIs on the way out",
            allow_all_outbound=True,
        )
        group_id = self.security_group.security_group_id
        ec2.CfnSecurityGroupIngress(
            self,
            "FromItself",
            group_id=group_id,
            source_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA from the other GPU nodes",
        )
        ec2.CfnSecurityGroupEgress(
            self,
            "ToItself",
            group_id=group_id,
            destination_security_group_id=group_id,
            ip_protocol="-1",
            description="EFA to the other GPU nodes",
        )
