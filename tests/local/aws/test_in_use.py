"""What is in use can't be deleted in the emulated account, and says so in AWS's words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from kvrelay.local.aws.emulator import EmulatedAws
from tests.local.aws.conftest import Stacks, Template


def _subnet(index: int) -> Template:
    zone = f"us-east-2{'ab'[index]}"
    cidr = f"10.0.{index}.0/24"
    return {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr, "AvailabilityZone": zone},
    }


NETWORK: Template = {
    "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
    "Group": {
        "Type": "AWS::EC2::SecurityGroup",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "GroupDescription": "nodes"},
    },
    "First": _subnet(0),
    "Second": _subnet(1),
}


def _role(aws: EmulatedAws, name: str, service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    made = aws.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=policy)
    arn: str = made["Role"]["Arn"]
    return arn


@pytest.fixture
def cluster(aws: EmulatedAws, stacks: Stacks) -> Iterator[Any]:
    """EKS with a cluster and a node group in the stack `network`."""
    assert stacks.deploy("network", NETWORK) == "CREATE_COMPLETE"
    subnets = [stacks.physical_id("network", name) for name in ("First", "Second")]
    group = stacks.physical_id("network", "Group")
    eks = aws.client("eks")
    network = {"subnetIds": subnets, "securityGroupIds": [group]}
    eks.create_cluster(name="c", roleArn=_role(aws, "c", "eks.amazonaws.com"), resourcesVpcConfig=network)
    role = _role(aws, "n", "ec2.amazonaws.com")
    eks.create_nodegroup(clusterName="c", nodegroupName="n", nodeRole=role, subnets=subnets[:1])
    yield eks
    for name in ("c", "n"):
        aws.client("iam").delete_role(RoleName=name)


def test_a_network_goes_only_after_the_cluster_and_the_cluster_only_after_its_nodes(
    aws: EmulatedAws, stacks: Stacks, cluster: Any
) -> None:
    assert stacks.delete("network") == "DELETE_FAILED"
    reasons = stacks.reasons("network", "DELETE_FAILED")
    first = stacks.physical_id("network", "First")
    assert f"The subnet '{first}' has dependencies and cannot be deleted." in reasons
    assert "DependencyViolation" in reasons
    # What they are in goes last: it is not even tried.
    assert ("Vpc", "DELETE_IN_PROGRESS") not in stacks.events("network")

    with pytest.raises(ClientError, match="Cluster has nodegroups attached"):
        cluster.delete_cluster(name="c")
    cluster.delete_nodegroup(clusterName="c", nodegroupName="n")
    # The control plane's own interfaces hold the subnets still.
    assert stacks.delete("network") == "DELETE_FAILED"
    cluster.delete_cluster(name="c")
    assert stacks.delete("network") == "DELETE_COMPLETE"
    assert {each.type for each in aws.leftovers()} == {"AWS::IAM::Role"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"subnetIds": ["subnet-0123456789abcdef0"]}, "subnet-0123456789abcdef0"),
        ({"subnetIds": ["First"]}, "at least two different AZs"),
        (
            {"subnetIds": ["First", "Second"], "securityGroupIds": ["sg-0123456789abcdef0"]},
            "sg-0123456789abcdef0",
        ),
    ],
    ids=["no-such-subnet", "one-zone", "no-such-group"],
)
def test_a_cluster_of_what_is_not_there_is_refused(
    aws: EmulatedAws, stacks: Stacks, wrong: dict[str, list[str]], words: str
) -> None:
    stacks.deploy("network", NETWORK)
    wrong = {
        key: [stacks.physical_id("network", each) if each in NETWORK else each for each in values]
        for key, values in wrong.items()
    }
    arn = _role(aws, "c", "eks.amazonaws.com")
    try:
        with pytest.raises(ClientError, match=words):
            aws.client("eks").create_cluster(name="c", roleArn=arn, resourcesVpcConfig=wrong)
        with pytest.raises(ClientError, match="could not be assumed"):
            aws.client("eks").create_cluster(name="c", roleArn=f"{arn}-not", resourcesVpcConfig=wrong)
    finally:
        aws.client("iam").delete_role(RoleName="c")
    assert aws.client("eks").list_clusters()["clusters"] == []


def test_a_bucket_with_objects_is_not_deleted(aws: EmulatedAws, stacks: Stacks) -> None:
    stacks.deploy("bucket", {"Bucket": {"Type": "AWS::S3::Bucket"}})
    bucket = stacks.physical_id("bucket", "Bucket")
    aws.client("s3").put_object(Bucket=bucket, Key="k", Body=b"")
    assert stacks.delete("bucket") == "DELETE_FAILED"
    assert "not empty" in stacks.reasons("bucket", "DELETE_FAILED")
    aws.client("s3").delete_object(Bucket=bucket, Key="k")
    assert stacks.delete("bucket") == "DELETE_COMPLETE"


def test_what_any_service_holds_is_left_over(aws: EmulatedAws) -> None:
    """The services are those that were ever asked for something: each must be found by the name that moto gives it."""
    assert [str(each) for each in aws.leftovers()] == []
    aws.client("sqs").create_queue(QueueName="q")
    aws.client("sns").create_topic(Name="t")
    aws.client("ssm").put_parameter(Name="p", Value="v", Type="String")
    aws.client("logs").create_log_group(logGroupName="g")
    aws.client("secretsmanager").create_secret(Name="s", SecretString="v")
    aws.client("kms").create_key()
    aws.client("s3").create_bucket(
        Bucket="bucket", CreateBucketConfiguration={"LocationConstraint": aws.region}
    )
    aws.client("ecr").create_repository(repositoryName="r")
    aws.client("events").put_rule(Name="e", ScheduleExpression="rate(1 day)")
    aws.client("cloudwatch").put_dashboard(DashboardName="d", DashboardBody="{}")
    aws.client("lambda").publish_layer_version(LayerName="l", Content={"ZipFile": b"x"})
    _role(aws, "role", "eks.amazonaws.com")
    assert {each.type.split("::")[1] for each in aws.leftovers()} == {
        "SQS",
        "SNS",
        "SSM",
        "Logs",
        "SecretsManager",
        "KMS",
        "S3",
        "ECR",
        "Events",
        "CloudWatch",
        "IAM",
        "Lambda",
    }
