"""The parts that every node's launch template shares."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

ROOT_DEVICE = "/dev/xvda"


def imdsv2_only() -> ec2.CfnLaunchTemplate.MetadataOptionsProperty:
    """One hop: the node reaches its metadata, pods don't. Pods get credentials from EKS Pod Identity."""
    return ec2.CfnLaunchTemplate.MetadataOptionsProperty(
        http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
    )


def encrypted_root(gib: int) -> list[ec2.CfnLaunchTemplate.BlockDeviceMappingProperty]:
    """An encrypted gp3 root volume of `gib` GiB that goes with its node."""
    return [
        ec2.CfnLaunchTemplate.BlockDeviceMappingProperty(
            device_name=ROOT_DEVICE,
            ebs=ec2.CfnLaunchTemplate.EbsProperty(
                volume_size=gib, volume_type="gp3", encrypted=True, delete_on_termination=True
            ),
        )
    ]


def tagged(tags: Mapping[str, str]) -> list[ec2.CfnLaunchTemplate.TagSpecificationProperty]:
    """`tags` on instances, volumes and interfaces: a node group's own tags don't reach them."""
    return [
        ec2.CfnLaunchTemplate.TagSpecificationProperty(
            resource_type=kind, tags=[cdk.CfnTag(key=key, value=value) for key, value in tags.items()]
        )
        for kind in ("instance", "volume", "network-interface")
    ]
