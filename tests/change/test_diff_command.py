"""kvrelay diff as people and pipelines run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import boto3
import pytest
from click.testing import CliRunner

from kvrelay.change.command import diff
from kvrelay.errors import UserError
from kvrelay.local.aws.emulator import EmulatedAws
from tests.change.conftest import Checkout

SURFACE = "serving: {security_profile: ipc-lock}"


def _run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(diff, [str(each) for each in arguments], catch_exceptions=False)
    return result.exit_code, result.output


def test_text_says_class_cause_price_quota_and_strategy(checkout: Checkout) -> None:
    code, text = _run(checkout(), "--head", checkout(SURFACE))
    assert code == 0
    for part in (
        "new-ray-cluster: 1 change\n",
        "because of serving.security_profile",
        "expected downtime: about",
        "USD/h: ",
        "vCPUs of quota Running On-Demand G and VT instances: 64 -> 64",
        "strategy: deploy, then delete the RayCluster",
    ):
        assert part in text


def test_json_holds_the_same_for_machines(checkout: Checkout) -> None:
    found = json.loads(_run(checkout(), "--head", checkout(SURFACE), "--output", "json")[1])
    assert found["class"] == "new-ray-cluster"
    assert found["gpus"] == {"needed": 4, "available": 2}
    assert [change["causes"] for change in found["changes"]] == [["serving.security_profile"]]


def test_markdown_is_a_table_with_a_row_for_each_change(checkout: Checkout) -> None:
    text = _run(checkout(), "--head", checkout(SURFACE), "--output", "markdown")[1]
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 1
    assert all(row.count("|") == 5 for row in rows)


@pytest.mark.parametrize(
    ("threshold", "code"), [("rolling", 13), ("new-ray-cluster", 13), ("node-replacement", 0), ("loss", 0)]
)
def test_fail_on_exits_by_class_from_its_threshold_on(checkout: Checkout, threshold: str, code: int) -> None:
    assert _run(checkout(), "--head", checkout(SURFACE), "--fail-on", threshold)[0] == code


def test_no_change_never_fails(checkout: Checkout) -> None:
    assert _run(checkout(), "--head", checkout(), "--fail-on", "in-place") == (0, "nothing: no change\n")


def test_a_bare_cdk_out_is_enough_and_leaves_out_what_it_cannot_tell(checkout: Checkout) -> None:
    text = _run(checkout() / "cdk.out", "--head", checkout(SURFACE))[1]
    assert "USD/h: not known -> " in text
    assert "because of" not in text


def test_an_edit_that_was_not_synthesized_is_pointed_out(checkout: Checkout, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(checkout(), edited)
    (edited / "deployment.yaml").write_text(SURFACE)
    assert "was cdk synth run" in _run(checkout(), "--head", edited)[1]


@pytest.mark.parametrize("content", [None, "", "{", "[]", "{}", '{"artifacts": {}}'])
def test_a_base_that_is_no_synthesis_is_one_line(
    checkout: Checkout, tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(UserError) as error:
        _run(tmp_path, "--head", checkout())
    assert "\n" not in str(error.value)
    assert "cdk synth" in str(error.value)


def test_base_and_deployed_exclude_each_other(checkout: Checkout) -> None:
    for arguments in ((checkout(), "--deployed"), ("--head", checkout())):
        with pytest.raises(UserError, match="one of the two"):
            _run(*arguments)


def test_deployed_stacks_are_read_from_the_account(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = checkout()
    network = json.loads((head / "cdk.out" / "Network.template.json").read_text())
    name, log_group = next(
        (name, each) for name, each in network["Resources"].items() if each["Type"] == "AWS::Logs::LogGroup"
    )
    log_group["Properties"]["RetentionInDays"] = 3
    with EmulatedAws() as account:
        for key, value in account.environment().items():
            monkeypatch.setenv(key, value)
        cloudformation = boto3.client("cloudformation", region_name="us-east-2")
        cloudformation.create_stack(
            StackName="kvrelay-network", TemplateBody=json.dumps({"Resources": {name: log_group}})
        )
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName="kvrelay-network", WaiterConfig={"Delay": 1}
        )
        found = json.loads(_run("--deployed", "--head", head, "--output", "json")[1])
    changes = {change["subject"]: change for change in found["changes"]}
    assert changes[name]["paths"] == ["RetentionInDays"]
    assert changes["EksClusterB2BDED5B"]["what"] == "is added"
