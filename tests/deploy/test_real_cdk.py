"""The real cdk command line deploys, diffs, changes and destroys the real app in an emulated account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.local.aws.account import ACCOUNT_ID
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.cdk_cli import PROJECT, CdkError, cdk_lines

CAPACITY = (
    "Could not launch On-Demand Instances. InsufficientInstanceCapacity - We currently do not have sufficient "
    "g6.8xlarge capacity in the Availability Zone you requested (us-east-2a)."
)

Settings = dict[str, Any]

FROM_BUCKET: Settings = {
    "serving": {"weights": {"source": "s3", "bucket": "our-weights", "prefix": "models/m"}}
}
WITH_TOKEN: Settings = {
    "serving": {"weights": {"source": "hugging-face", "token_secret_name": "hugging-face/token"}}
}
THREE_NODES: Settings = {"gpu_nodes": {"groups": [{"count": 3}]}}


class Account:
    """An emulated account with one deployment file, and cdk on it."""

    def __init__(self, aws: EmulatedAws, folder: Path) -> None:
        self.aws = aws
        self.file = folder / "deployment.yaml"
        self.output = folder / "cdk.out"
        (folder / "serve_configs").symlink_to(PROJECT / "serve_configs")
        self.write({})

    def write(self, settings: Settings) -> None:
        self.file.write_text(yaml.safe_dump({"name": "kvrelay", **settings}))

    def cdk(self, *arguments: str, synthesized: bool = False) -> str:
        """What cdk says; of the app as it was last synthesized, if that is to be. Raises CdkError when it fails."""
        environment = self.aws.environment() | {"CDK_VALIDATION": "false", "NO_COLOR": "1"}
        where = ("--app" if synthesized else "--output", str(self.output))
        return "\n".join(cdk_lines(*arguments, *where, deployment=self.file, environment=environment))

    def deploy(self, *, synthesized: bool = True) -> str:
        arguments = ("deploy", "--all", "--require-approval", "never", "--progress", "events")
        return self.cdk(*arguments, synthesized=synthesized)

    def changed(self) -> set[str]:
        """The construct paths of the resources that `cdk diff` names."""
        text = self.cdk("diff")
        found = re.findall(r"^\[[-+~]\] \S+ (\S+) \S+", text, re.MULTILINE)
        assert "requires replacement" not in text
        return {path.removesuffix("/Default").removesuffix("/Resource") for path in found}

    def pod_identity(self) -> dict[str, list[str]]:
        """What Ray's pods may do in AWS: resources by action."""
        eks, iam = self.aws.client("eks"), self.aws.client("iam")
        (found,) = eks.list_pod_identity_associations(
            clusterName="kvrelay", namespace="inference", serviceAccount="ray"
        )["associations"]
        association = eks.describe_pod_identity_association(
            clusterName="kvrelay", associationId=found["associationId"]
        )["association"]
        role = association["roleArn"].split("/")[-1]
        (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        allowed: dict[str, list[str]] = {}
        for statement in document["Statement"]:
            allowed.setdefault(statement["Action"], []).append(statement["Resource"])
        return allowed

    def worker_pods(self) -> list[dict[str, Any]]:
        """The pods of the worker groups, as they were applied to the cluster."""
        kubernetes = self.aws.account.eks(self.aws.region).cluster("kvrelay").kubernetes
        assert kubernetes
        (service,) = (each for each in kubernetes.store.all() if each["kind"] == "RayService")
        groups = service["spec"]["rayClusterConfig"]["workerGroupSpecs"]
        return [group["template"]["spec"] for group in groups]

    def nodes(self) -> int:
        """GPU nodes that the account's cluster wants."""
        eks = self.aws.client("eks")
        groups = [
            eks.describe_nodegroup(clusterName="kvrelay", nodegroupName=name)["nodegroup"]
            for name in eks.list_nodegroups(clusterName="kvrelay")["nodegroups"]
        ]
        return sum(group["scalingConfig"]["desiredSize"] for group in groups if group["taints"])


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with EmulatedAws() as aws:
        bootstrapped = Account(aws, tmp_path_factory.mktemp("deployment"))
        bootstrapped.write(FROM_BUCKET)
        # Named, the account is made ready without a synth.
        bootstrapped.cdk("bootstrap", f"aws://{ACCOUNT_ID}/{aws.region}")
        yield bootstrapped


def test_a_node_group_without_capacity_rolls_back_says_why_and_the_next_deploy_works(
    account: Account,
) -> None:
    account.aws.fail("AWS::EKS::Nodegroup", message=CAPACITY, times=1)
    with pytest.raises(CdkError) as failed:
        account.deploy(synthesized=False)
    assert "InsufficientInstanceCapacity" in str(failed.value)
    assert "kvrelay-cluster failed to deploy" in str(failed.value)
    stacks = account.aws.client("cloudformation").describe_stacks()["Stacks"]
    states = {stack["StackName"]: stack["StackStatus"] for stack in stacks}
    assert states["kvrelay-cluster"] == "ROLLBACK_COMPLETE"
    assert account.aws.client("eks").list_clusters()["clusters"] == []

    account.deploy()
    assert account.nodes() == 2


def test_a_diff_right_after_is_empty(account: Account) -> None:
    assert "Number of stacks with differences: 0" in account.cdk("diff", "--fail")


def test_weights_from_a_bucket_come_with_an_identity_that_reads_just_their_folder(account: Account) -> None:
    assert account.pod_identity() == {
        "s3:GetObject": ["arn:aws:s3:::our-weights/models/m/*"],
        "s3:ListBucket": ["arn:aws:s3:::our-weights"],
    }
    for pod in account.worker_pods():
        (fetch,) = pod["initContainers"]
        assert fetch["command"][2:7] == ["weights", "--bucket", "our-weights", "--prefix", "models/m"]
        assert pod["serviceAccountName"] == "ray"


def test_more_gpu_nodes_are_the_node_group_and_its_quota_in_the_diff_and_then_in_the_account(
    account: Account,
) -> None:
    account.write(FROM_BUCKET | THREE_NODES)
    assert account.changed() == {"GpuNodes/gpu/NodeGroup", "Manifests/quota"}
    account.deploy()
    assert account.nodes() == 3


def test_another_version_of_the_container_is_the_ray_service_alone(account: Account) -> None:
    image = {"image": "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.1"}
    account.write({"serving": FROM_BUCKET["serving"] | image} | THREE_NODES)
    assert account.changed() == {"Manifests/ray-service"}


def test_a_serve_config_edit_is_the_ray_service_alone(account: Account) -> None:
    config = (PROJECT / "serve_configs/qwen3.5-9b.yaml").read_text()
    edited = account.file.parent / "edited.yaml"
    edited.write_text(config.replace("max_ongoing_requests: 64", "max_ongoing_requests: 32"))
    account.write({"serving": FROM_BUCKET["serving"] | {"serve_config": "edited.yaml"}} | THREE_NODES)
    assert account.changed() == {"Manifests/ray-service"}


def test_a_token_in_place_of_the_bucket_changes_the_identity_and_stands_in_no_manifest(
    account: Account,
) -> None:
    account.aws.client("secretsmanager").create_secret(Name="hugging-face/token", SecretString="hf_planted")
    account.write(WITH_TOKEN | THREE_NODES)
    account.deploy(synthesized=False)
    secret = "arn:aws:secretsmanager:us-east-2:123456789012:secret:hugging-face/token-??????"
    assert account.pod_identity() == {"secretsmanager:GetSecretValue": [secret]}
    for pod in account.worker_pods():
        (fetch,) = pod["initContainers"]
        assert fetch["command"][2:5] == ["token", "--secret", "hugging-face/token"]
        assert "hf_planted" not in str(pod)
    templates = [file.read_text() for file in account.output.glob("*.template.json")]
    assert len(templates) == 3
    assert "hf_planted" not in "".join(templates)


def test_a_tag_changes_tags_only(account: Account) -> None:
    account.write(WITH_TOKEN | THREE_NODES | {"tags": {"team": "inference"}})
    changed = account.changed()
    assert "Vpc/Vpc" in changed
    assert not [path for path in changed if path.startswith("Manifests/")]
    account.deploy()
    vpcs = account.aws.client("ec2").describe_vpcs(Filters=[{"Name": "tag:team", "Values": ["inference"]}])
    assert len(vpcs["Vpcs"]) == 1


def test_a_destroy_leaves_nothing(account: Account) -> None:
    account.cdk("destroy", "--all", "--force", synthesized=True)
    account.aws.client("secretsmanager").delete_secret(
        SecretId="hugging-face/token", ForceDeleteWithoutRecovery=True
    )
    assert [str(each) for each in account.aws.leftovers(bootstrap=False)] == []
