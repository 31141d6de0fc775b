"""kvrelay drift as people and pipelines run it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import kvrelay.local.aws.server as server
from kvrelay.change.drift_command import drift
from kvrelay.errors import UserError
from kvrelay.local.aws.emulator import EmulatedAws
from tests.ci.drift_detection import DriftDetectingApi

RESOURCES = {
    "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "flows", "RetentionInDays": 30}},
    "Other": {"Type": "AWS::EC2::InternetGateway"},
}


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[EmulatedAws]:
    monkeypatch.setattr(server, "CloudFormationApi", DriftDetectingApi)
    (tmp_path / "deployment.yaml").write_text("name: kvrelay\n")
    monkeypatch.chdir(tmp_path)
    with EmulatedAws() as account:
        for key, value in account.environment().items():
            monkeypatch.setenv(key, value)
        yield account


def _deploy(aws: EmulatedAws) -> None:
    cloudformation = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="kvrelay-network", TemplateBody=json.dumps({"Resources": RESOURCES})
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="kvrelay-network", WaiterConfig={"Delay": 1}
    )


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(drift, arguments, catch_exceptions=False)
    return result.exit_code, result.output


def test_what_is_as_deployed_exits_with_0_and_counts_what_was_not_compared(aws: EmulatedAws) -> None:
    _deploy(aws)
    code, text = _run()
    assert code == 0
    assert text.splitlines() == [
        "everything is as it was deployed",
        "not compared by CloudFormation: 1 resource",
    ]


def test_a_changed_property_and_a_deleted_resource_exit_with_1(aws: EmulatedAws) -> None:
    _deploy(aws)
    aws.client("logs").put_retention_policy(logGroupName="flows", retentionInDays=1)
    code, text = _run()
    assert code == 1
    assert "  kvrelay-network  Logs/RetentionInDays: 30 -> 1" in text.splitlines()
    aws.client("logs").delete_log_group(logGroupName="flows")
    code, text = _run("--output", "json")
    assert code == 1
    (found,) = json.loads(text)["drifted"]
    assert (found["resource"], found["path"], found["found"]) == ("Logs", None, "deleted")


def test_an_account_without_the_stacks_is_one_line(aws: EmulatedAws) -> None:
    with pytest.raises(UserError, match=r"none of the stacks kvrelay-network, .* stands there"):
        _run()
