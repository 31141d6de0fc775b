"""kvrelay residue finds, prices and deletes every kind of leftover of one deployment, and no other's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.aws.errors import AwsError
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.residue.command import residue
from kvrelay.ops.residue.kinds import KINDS
from kvrelay.ops.residue.ownership import Owner

PLANTED = set(KINDS) - {"stack"}


def plant(aws: EmulatedAws, name: str) -> None:
    """One leftover of every kind but a stack, as the deployment's stacks and its cluster's controllers tag them."""
    ec2, elb = aws.client("ec2"), aws.client("elbv2")
    own = [{"Key": "kvrelay:deployment", "Value": name}]
    by_cluster = [{"Key": "elbv2.k8s.aws/cluster", "Value": name}]

    def tagged(kind: str, tags: list[dict[str, str]] = own) -> list[dict[str, Any]]:
        return [{"ResourceType": kind, "Tags": tags}]

    subnets = [row["SubnetId"] for row in ec2.describe_subnets()["Subnets"]]
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    ec2.create_network_interface(SubnetId=subnets[0], TagSpecifications=tagged("network-interface"))
    ec2.create_security_group(
        GroupName=f"k8s-{name}",
        Description="x",
        VpcId=vpc,
        TagSpecifications=tagged("security-group", by_cluster),
    )
    elb.create_load_balancer(Name=f"k8s-{name}", Subnets=subnets[:2], Type="network", Tags=by_cluster)
    elb.create_target_group(Name=f"k8s-{name}", Protocol="TCP", Port=80, VpcId=vpc, Tags=by_cluster)
    volume = ec2.create_volume(
        AvailabilityZone="us-east-2a", Size=200, VolumeType="gp3", TagSpecifications=tagged("volume")
    )
    ec2.create_snapshot(VolumeId=volume["VolumeId"], TagSpecifications=tagged("snapshot"))
    ec2.allocate_address(Domain="vpc", TagSpecifications=tagged("elastic-ip"))
    aws.client("logs").create_log_group(logGroupName=f"/aws/eks/{name}/cluster")
    ec2.create_launch_template(
        LaunchTemplateName=f"lt-{name}",
        LaunchTemplateData={"InstanceType": "g6.8xlarge"},
        TagSpecifications=tagged("launch-template"),
    )
    ec2.create_capacity_reservation(
        InstanceType="g6.8xlarge",
        InstancePlatform="Linux/UNIX",
        InstanceCount=2,
        AvailabilityZone="us-east-2a",
        TagSpecifications=tagged("capacity-reservation"),
    )
    aws.client("secretsmanager").create_secret(
        Name=f"{name}-token", SecretString="hf_planted_secret", Tags=own
    )
    # Of a kind that is made quickly: the emulator would make a long RSA key for a symmetric one.
    aws.client("kms").create_key(
        KeySpec="ECC_NIST_P256",
        KeyUsage="SIGN_VERIFY",
        Tags=[{"TagKey": "kvrelay:deployment", "TagValue": name}],
    )
    aws.client("iam").create_open_id_connect_provider(
        Url=f"https://oidc.eks.us-east-2.amazonaws.com/id/{name}", ThumbprintList=["a" * 40], Tags=own
    )


@pytest.fixture(scope="module")
def connection(emulated: EmulatedAws) -> Aws:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulated.environment().items():
            patch.setenv(name, value)
        aws = Aws("us-east-2")
        for service in ("cloudformation", "ec2", "elbv2", "iam", "kms", "logs", "secretsmanager"):
            aws.client(service)
        return aws


@pytest.fixture
def file(account_here: EmulatedAws, connection: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # Making clients takes most of a run's time: the commands of this module share theirs.
    monkeypatch.setattr("kvrelay.ops.preflight.aws.Aws", lambda region: connection)
    path = tmp_path / "deployment.yaml"
    path.write_text("name: kvrelay\n")
    return path


def run(file: Path, *arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(residue, ["--deployment", str(file), *arguments], **more)


def found(file: Path, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run(file, "--output", "json", *arguments).output)["leftovers"]
    return rows


def test_every_kind_is_found_priced_and_removed_and_no_other_deployments(
    account_here: EmulatedAws, file: Path
) -> None:
    assert found(file) == []
    plant(account_here, "kvrelay")
    plant(account_here, "kvrelay-cluster")
    other = file.with_name("other.yaml")
    other.write_text("name: kvrelay-cluster\n")
    beside = found(other)

    rows = found(file)
    assert {row["kind"] for row in rows} == PLANTED
    assert len(rows) == len(PLANTED)
    usd = {row["kind"]: row["usd_per_month"] for row in rows}
    assert usd["volume"] == 16.0
    assert usd["elastic ip"] == 3.65
    assert usd["kms key"] == 1.0
    assert usd["snapshot"] == 10.0
    assert usd["secret"] == 0.4
    assert usd["log group"] == 0.0
    assert usd["load balancer"] == pytest.approx(16.43, abs=0.01)
    assert usd["capacity reservation"] == pytest.approx(2 * 2.0144 * 730, abs=0.01)

    no = run(file, "--delete", input="n\n")
    assert (no.exit_code, found(file)) == (1, rows)
    assert "hf_planted_secret" not in no.output

    yes = run(file, "--delete", "--yes")
    assert yes.exit_code == 0, yes.output
    left = found(file)
    assert [row["kind"] for row in left] == ["kms key"]
    assert "goes by itself" in left[0]["name"]
    assert run(file).exit_code == 0
    assert found(other) == beside


def test_a_stack_whose_deletion_failed_is_listed(account_here: EmulatedAws, file: Path) -> None:
    rows = [
        {"StackName": name, "StackStatus": "DELETE_FAILED"} for name in ("kvrelay-network", "else-network")
    ]
    account_here.account.answers.put("cloudformation", "ListStacks", lambda given: {"StackSummaries": rows})

    assert [row["id"] for row in found(file) if row["kind"] == "stack"] == ["kvrelay-network"]


def test_nothing_is_deleted_while_a_stack_stands(account_here: EmulatedAws, file: Path) -> None:
    account_here.client("ec2").allocate_address(
        Domain="vpc",
        TagSpecifications=[
            {"ResourceType": "elastic-ip", "Tags": [{"Key": "kvrelay:deployment", "Value": "kvrelay"}]}
        ],
    )
    stack = {"StackName": "kvrelay-network", "StackStatus": "CREATE_COMPLETE"}
    account_here.account.answers.put("cloudformation", "DescribeStacks", lambda given: {"Stacks": [stack]})

    refused = run(file, "--delete", "--yes")

    assert "kvrelay-network still stands" in str(refused.exception)
    assert [row["kind"] for row in found(file) if row["kind"] == "elastic ip"] == ["elastic ip"]


def test_a_denied_call_is_told_and_hides_nothing_else(account_here: EmulatedAws, file: Path) -> None:
    account_here.account.answers.put(
        "ec2", "DescribeVolumes", AwsError("UnauthorizedOperation", "You may not.")
    )
    result = run(file)

    assert result.exit_code == 1
    assert "not checked: volume:" in result.output


def test_without_a_look_at_the_stacks_nothing_is_deleted(account_here: EmulatedAws, file: Path) -> None:
    denied = AwsError("AccessDenied", "You may not.")
    account_here.account.answers.put("cloudformation", "DescribeStacks", denied)

    assert "allow DescribeStacks" in str(run(file, "--delete", "--yes").exception)


@pytest.mark.parametrize(
    ("tags", "name", "ours"),
    [
        ({"kvrelay:deployment": "kvrelay"}, "", True),
        ({"kvrelay:deployment": "kvrelay-2"}, "/aws/eks/kvrelay/cluster", False),
        ({"aws:eks:cluster-name": "kvrelay"}, "", True),
        ({"elbv2.k8s.aws/cluster": "other"}, "kvrelay-cluster-Handler1", False),
        ({"kubernetes.io/cluster/kvrelay": "owned"}, "", True),
        ({"kubernetes.io/cluster/kvrelay": "shared", "kubernetes.io/cluster/b": "shared"}, "", False),
        ({}, "/aws/lambda/kvrelay-serving-HandlerA1B2", True),
        ({}, "/aws/lambda/kvrelay-cluster-network-HandlerA1B2", False),
        ({}, "/aws/eks/kvrelay-2/cluster", False),
        ({}, "", False),
    ],
)
def test_whose_a_resource_is(tags: dict[str, str], name: str, ours: bool) -> None:
    assert Owner("kvrelay").owns(tags, name) is ours


def test_help_teaches_exit_codes() -> None:
    assert "Exit codes: 0 nothing is left" in CliRunner().invoke(residue, ["--help"]).output
