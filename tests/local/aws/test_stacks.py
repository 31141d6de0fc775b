"""How the emulated CloudFormation deploys: order, references between stacks, faults, rollback, what is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from kvrelay.local.aws.emulator import EmulatedAws
from tests.local.aws.conftest import Stacks, Template

TYPE = "AWS::SSM::Parameter"


def parameter(value: Any = "v", *, name: str | None = None, **attributes: Any) -> Template:
    """A parameter of SSM: the smallest resource there is."""
    named = {"Name": name} if name else {}
    return {"Type": TYPE, "Properties": {"Type": "String", "Value": value, **named}, **attributes}


def value_of(aws: EmulatedAws, name: str) -> str:
    value: str = aws.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
    return value


def names(aws: EmulatedAws) -> set[str]:
    return {each["Name"] for each in aws.client("ssm").describe_parameters()["Parameters"]}


# First uses Second, Second uses Third: by reference, inside a text, and by word.
CHAIN = {
    "First": parameter({"Ref": "Second"}, name="first"),
    "Second": parameter({"Fn::Sub": "of ${Third.Value}"}, name="second"),
    "Third": parameter("3", name="third", DependsOn="Fourth"),
    "Fourth": parameter("4", name="fourth"),
}


def test_resources_are_made_after_all_that_they_use_and_deleted_before(
    aws: EmulatedAws, stacks: Stacks
) -> None:
    assert stacks.deploy("chain", CHAIN) == "CREATE_COMPLETE"
    assert (value_of(aws, "first"), value_of(aws, "second")) == ("second", "of 3")
    stack_id = stacks.client.describe_stacks(StackName="chain")["Stacks"][0]["StackId"]
    assert stacks.delete("chain") == "DELETE_COMPLETE"

    events = stacks.events(stack_id)
    done = {
        step: [name for name, status in events if status == f"{step}_COMPLETE" and name in CHAIN]
        for step in ("CREATE", "DELETE")
    }
    assert done == {
        "CREATE": ["Fourth", "Third", "Second", "First"],
        "DELETE": ["First", "Second", "Third", "Fourth"],
    }
    for before, after in zip(done["CREATE"], done["CREATE"][1:], strict=False):
        assert events.index((before, "CREATE_COMPLETE")) < events.index((after, "CREATE_IN_PROGRESS"))
    assert names(aws) == set()


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"A": parameter({"Ref": "B"}), "B": parameter({"Ref": "A"})}, "Circular dependency"),
        ({"A": parameter({"Ref": "Nowhere"})}, "Nowhere"),
        ({"A": parameter(DependsOn="Nowhere")}, "Nowhere"),
        ({"A": {"Type": "AWS::EC2::VPC", "Color": "red"}}, "Color"),
    ],
    ids=["circle", "no-such-resource", "no-such-dependency", "no-such-key"],
)
def test_a_template_that_cannot_be_is_refused_before_anything_is_made(
    stacks: Stacks, resources: Template, words: str
) -> None:
    with pytest.raises(ClientError, match=words):
        stacks.deploy("refused", resources)
    assert stacks.client.describe_stacks()["Stacks"] == []


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ({"Type": "AWS::Quantum::Ledger"}, "does not know this type"),
        ({"Type": TYPE, "Properties": {"Type": "String", "Value": "v", "Colour": "red"}}, "Colour"),
        ({"Type": TYPE, "Properties": {"Type": "String"}}, "Value"),
        (parameter({"Fn::GetAtt": ["B", "Nothing"]}), "Nothing"),
    ],
    ids=["type", "unknown-property", "missing-property", "attribute"],
)
def test_a_resource_that_cannot_be_fails_its_stack_with_the_reason(
    aws: EmulatedAws, stacks: Stacks, resource: Template, words: str
) -> None:
    try:
        assert stacks.deploy("failing", {"A": resource, "B": parameter(name="b")}) == "ROLLBACK_COMPLETE"
    except ClientError as refused:
        assert words in str(refused)  # noqa: PT017 - AWS may say so at once, or by a failed resource.
    else:
        assert words in stacks.reasons("failing", "CREATE_FAILED")
    assert names(aws) == set()


EXPORT: dict[str, Any] = {"Outputs": {"Out": {"Value": {"Ref": "Shared"}, "Export": {"Name": "shared"}}}}
IMPORTER = {"User": parameter({"Fn::ImportValue": "shared"}, name="user")}


def test_a_value_reaches_another_stack_and_holds_its_exporter(aws: EmulatedAws, stacks: Stacks) -> None:
    stacks.deploy("exporter", {"Shared": parameter(name="shared-1")}, **EXPORT)
    assert stacks.deploy("importer", IMPORTER) == "CREATE_COMPLETE"
    assert value_of(aws, "user") == "shared-1"

    assert stacks.delete("exporter") == "DELETE_FAILED"
    assert "in use by importer" in stacks.reasons("exporter", "DELETE_FAILED")
    assert value_of(aws, "shared-1") == "v"

    assert stacks.delete("importer") == "DELETE_COMPLETE"
    assert stacks.delete("exporter") == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    "outputs", [{}, {"Outputs": {"Out": {"Value": "other", "Export": {"Name": "shared"}}}}]
)
def test_an_export_in_use_is_neither_changed_nor_dropped(stacks: Stacks, outputs: dict[str, Any]) -> None:
    shared = {"Shared": parameter(name="shared-1")}
    stacks.deploy("exporter", shared, **EXPORT)
    stacks.deploy("importer", IMPORTER)
    assert stacks.deploy("exporter", shared, **outputs) == "UPDATE_ROLLBACK_COMPLETE"
    assert "in use by importer" in stacks.reasons("exporter", "UPDATE_ROLLBACK_IN_PROGRESS")
    assert stacks.outputs("exporter") == {"Out": "shared-1"}


def test_an_import_of_nothing_fails(stacks: Stacks) -> None:
    with pytest.raises(ClientError, match="No export named shared found"):
        stacks.deploy("importer", IMPORTER)


def test_a_create_that_fails_is_rolled_back_and_leaves_nothing(aws: EmulatedAws, stacks: Stacks) -> None:
    aws.fail("AWS::SNS::Topic", message="The limit is reached")
    topic = {"Type": "AWS::SNS::Topic", "DependsOn": "Before"}
    resources = {"Before": parameter(name="before"), "Topic": topic, "After": parameter({"Ref": "Topic"})}

    assert stacks.deploy("failing", resources) == "ROLLBACK_COMPLETE"
    assert "The limit is reached" in stacks.reasons("failing", "CREATE_FAILED")
    assert ("Before", "DELETE_COMPLETE") in stacks.events("failing")
    assert ("After", "CREATE_IN_PROGRESS") not in stacks.events("failing")
    assert names(aws) == set()
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        stacks.deploy("failing", resources)
    # The fault struck once: after a delete the same stack works.
    stacks.delete("failing")
    assert stacks.deploy("failing", resources) == "CREATE_COMPLETE"


def test_without_rollback_what_was_made_stays(aws: EmulatedAws, stacks: Stacks) -> None:
    aws.fail("AWS::SNS::Topic")
    resources = {
        "Before": parameter(name="before"),
        "Topic": {"Type": "AWS::SNS::Topic", "DependsOn": "Before"},
    }
    assert stacks.deploy("failing", resources, DisableRollback=True) == "CREATE_FAILED"
    assert names(aws) == {"before"}


def test_an_update_that_fails_puts_everything_back(aws: EmulatedAws, stacks: Stacks) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"DelaySeconds": 1}, "DependsOn": "Kept"}
    stacks.deploy("changing", {"Kept": parameter("old", name="kept"), "Queue": queue})

    aws.fail("AWS::SQS::Queue", message="No such delay", action="UPDATE")
    changed = {
        "Kept": parameter("new", name="kept"),
        "Fresh": parameter(name="fresh"),
        "Queue": queue | {"Properties": {"DelaySeconds": 2}, "DependsOn": ["Kept", "Fresh"]},
    }
    assert stacks.deploy("changing", changed) == "UPDATE_ROLLBACK_COMPLETE"
    assert "No such delay" in stacks.reasons("changing", "UPDATE_FAILED")
    assert value_of(aws, "kept") == "old"
    assert names(aws) == {"kept"}

    assert stacks.deploy("changing", changed) == "UPDATE_COMPLETE"
    assert (value_of(aws, "kept"), names(aws)) == ("new", {"kept", "fresh"})


def test_a_delete_that_fails_is_told_and_can_be_tried_again(aws: EmulatedAws, stacks: Stacks) -> None:
    stacks.deploy("stuck", {"Topic": {"Type": "AWS::SNS::Topic"}, "Other": parameter(name="other")})
    aws.fail("AWS::SNS::Topic", message="Something still uses it", action="DELETE", times=2)
    for _ in range(2):
        assert stacks.delete("stuck") == "DELETE_FAILED"
        assert "Something still uses it" in stacks.reasons("stuck", "DELETE_FAILED")
        assert names(aws) == set()
    assert stacks.delete("stuck") == "DELETE_COMPLETE"


def test_a_planned_fault_may_strike_until_it_is_cleared(aws: EmulatedAws, stacks: Stacks) -> None:
    aws.fail(TYPE, times="always")
    for name in ("one", "two"):
        assert stacks.deploy(name, {"A": parameter()}) == "ROLLBACK_COMPLETE"
    aws.account.faults.clear()
    assert stacks.deploy("three", {"A": parameter()}) == "CREATE_COMPLETE"


def test_what_cannot_change_in_place_is_replaced_and_the_old_one_goes_last(
    aws: EmulatedAws, stacks: Stacks
) -> None:
    stacks.deploy("replacing", {"A": parameter(name="old"), "User": parameter({"Ref": "A"}, name="user")})
    stacks.deploy("replacing", {"A": parameter(name="new"), "User": parameter({"Ref": "A"}, name="user")})
    assert value_of(aws, "user") == "new"
    assert names(aws) == {"new", "user"}
    events = stacks.events("replacing")
    cleanup = events.index(("replacing", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"))
    assert ("A", "DELETE_COMPLETE") in events[cleanup:]


def test_what_is_to_be_retained_stays_when_replaced_and_when_deleted(
    aws: EmulatedAws, stacks: Stacks
) -> None:
    keep = {"UpdateReplacePolicy": "Retain", "DeletionPolicy": "Retain"}
    stacks.deploy("keeping", {"A": parameter(name="old", **keep)})
    stacks.deploy("keeping", {"A": parameter(name="new", **keep)})
    assert stacks.delete("keeping") == "DELETE_COMPLETE"
    assert names(aws) == {"old", "new"}
    for name in ("old", "new"):
        aws.client("ssm").delete_parameter(Name=name)


def test_a_change_set_names_what_would_change_and_changes_nothing(aws: EmulatedAws, stacks: Stacks) -> None:
    stacks.deploy("planned", {"Same": parameter(name="same"), "Gone": parameter(name="gone")})
    resources = {"Same": parameter("other", name="same"), "Added": parameter(name="added")}
    plan(stacks, "planned", resources)
    changes = stacks.client.describe_change_set(StackName="planned", ChangeSetName="plan")["Changes"]
    found = {each["ResourceChange"]["LogicalResourceId"]: each["ResourceChange"] for each in changes}
    assert {name: change["Action"] for name, change in found.items()} == {
        "Same": "Modify",
        "Added": "Add",
        "Gone": "Remove",
    }
    assert found["Same"]["Replacement"] == "False"
    assert names(aws) == {"same", "gone"}


def plan(stacks: Stacks, name: str, resources: Template) -> None:
    body = json.dumps({"Resources": resources})
    stacks.client.create_change_set(StackName=name, ChangeSetName="plan", TemplateBody=body)


def test_an_update_without_a_change_is_an_error(stacks: Stacks) -> None:
    stacks.deploy("same", {"A": parameter()})
    with pytest.raises(ClientError, match=r"No updates are to be performed\."):
        stacks.deploy("same", {"A": parameter()})


def test_a_protected_stack_is_not_deleted(stacks: Stacks) -> None:
    stacks.deploy("protected", {"A": parameter()}, EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        stacks.delete("protected")
    stacks.client.update_termination_protection(StackName="protected", EnableTerminationProtection=False)
