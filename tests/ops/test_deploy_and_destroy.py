"""kvrelay deploy and destroy show what they touch and cost, ask, and refuse what can't be right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvrelay.errors import UserError
from kvrelay.local.aws.account import ACCOUNT_ID
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops import deploy as deploying


@pytest.fixture
def aws(account_here: EmulatedAws) -> EmulatedAws:
    return account_here


@pytest.fixture
def bootstrapped(aws: EmulatedAws) -> Iterator[EmulatedAws]:
    parameter = "/cdk-bootstrap/hnb659fds/version"
    aws.client("ssm").put_parameter(Name=parameter, Value="30", Type="String")
    yield aws
    aws.client("ssm").delete_parameter(Name=parameter)


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    file = tmp_path / "deployment.yaml"
    file.write_text("name: kvrelay\n")
    return file


def test_shows_account_region_and_cost_and_changes_nothing_on_no(
    bootstrapped: EmulatedAws, deployment: Path
) -> None:
    result = CliRunner().invoke(deploying.deploy, ["--deployment", str(deployment)], input="n\n")

    assert result.exit_code == 1
    assert f"account: {ACCOUNT_ID}" in result.output
    assert "region: us-east-2, GPU nodes in us-east-2a" in result.output
    assert "2 x g6.8xlarge" in result.output
    assert "cost: 4.43 USD/h" in result.output
    assert "nothing was changed" in result.output
    assert bootstrapped.client("cloudformation").list_stacks()["StackSummaries"] == []


def test_an_account_that_cdk_has_not_bootstrapped_is_told_the_command(
    aws: EmulatedAws, deployment: Path
) -> None:
    with pytest.raises(UserError, match=rf"cdk bootstrap aws://{ACCOUNT_ID}/us-east-2"):
        deploying.deploy.main(["--deployment", str(deployment)], standalone_mode=False)


@pytest.mark.parametrize("command", [deploying.deploy, deploying.destroy], ids=["deploy", "destroy"])
def test_credentials_of_another_account_are_refused(
    bootstrapped: EmulatedAws, deployment: Path, command: click.Command
) -> None:
    deployment.write_text('name: kvrelay\naccount: "999999999999"\n')

    with pytest.raises(UserError, match="allows 999999999999 only") as refused:
        command.main(["--deployment", str(deployment)], standalone_mode=False)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("command", [deploying.deploy, deploying.destroy], ids=["deploy", "destroy"])
def test_missing_credentials_are_one_line(
    monkeypatch: pytest.MonkeyPatch, deployment: Path, command: click.Command, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))

    with pytest.raises(UserError, match=r"AWS credentials: .*aws sso login") as refused:
        command.main(["--deployment", str(deployment)], standalone_mode=False)
    assert "\n" not in str(refused.value)


def test_destroy_says_so_when_nothing_stands(bootstrapped: EmulatedAws, deployment: Path) -> None:
    result = CliRunner().invoke(deploying.destroy, ["--deployment", str(deployment)])

    assert result.exit_code == 0
    assert "nothing to destroy" in result.output
    assert "nothing is left of kvrelay" in result.output


def test_destroy_fails_when_something_outlived_the_stacks(
    bootstrapped: EmulatedAws, deployment: Path
) -> None:
    logs = bootstrapped.client("logs")
    logs.create_log_group(logGroupName="/aws/eks/kvrelay/cluster")

    result = CliRunner().invoke(deploying.destroy, ["--deployment", str(deployment)])

    assert result.exit_code == 1
    assert "/aws/eks/kvrelay/cluster" in result.output
    logs.delete_log_group(logGroupName="/aws/eks/kvrelay/cluster")


@pytest.mark.parametrize("command", [deploying.deploy, deploying.destroy], ids=["deploy", "destroy"])
def test_an_unreachable_region_is_one_line(
    bootstrapped: EmulatedAws, deployment: Path, command: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for service in ("SSM", "CLOUDFORMATION"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with pytest.raises(UserError, match="check region and network") as refused:
        command.main(["--deployment", str(deployment)], standalone_mode=False)
    assert "\n" not in str(refused.value)


def test_destroy_names_what_stands_and_keeps_it_on_no(bootstrapped: EmulatedAws, deployment: Path) -> None:
    cloudformation = bootstrapped.client("cloudformation")
    cloudformation.create_stack(
        StackName="kvrelay-network", TemplateBody='{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}'
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="kvrelay-network", WaiterConfig={"Delay": 1}
    )

    result = CliRunner().invoke(deploying.destroy, ["--deployment", str(deployment)], input="n\n")

    assert result.exit_code == 1
    assert "stack kvrelay-network: CREATE_COMPLETE" in result.output
    assert cloudformation.describe_stacks(StackName="kvrelay-network")["Stacks"]
    cloudformation.delete_stack(StackName="kvrelay-network")
