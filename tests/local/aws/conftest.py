"""An emulated account for a whole file of tests, and stacks in it by their resources alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvrelay.local.aws.emulator import EmulatedAws

Template = dict[str, Any]


class Stacks:
    """CloudFormation's own operations, each waited for."""

    def __init__(self, aws: EmulatedAws) -> None:
        self.aws = aws
        self.client = aws.client("cloudformation")

    def deploy(self, name: str, resources: Template, **more: Any) -> str:
        """Creates or updates a stack; returns the status it ends in. `more` are other sections and options."""
        sections = {
            key: more.pop(key) for key in list(more) if key in ("Outputs", "Parameters", "Conditions")
        }
        known = {stack["StackName"] for stack in self.client.describe_stacks()["Stacks"]}
        operation = self.client.update_stack if name in known else self.client.create_stack
        operation(StackName=name, TemplateBody=json.dumps({"Resources": resources, **sections}), **more)
        return self._settled(name)

    def delete(self, name: str) -> str:
        """Takes a stack down; returns the status it ends in."""
        stack_id = self.client.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        self.client.delete_stack(StackName=name)
        return self._settled(stack_id)

    def _settled(self, name: str) -> str:
        for _ in range(1000):
            status: str = self.client.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
            if not status.endswith("_IN_PROGRESS"):
                return status
            time.sleep(0.03)
        raise AssertionError(f"{name} is still in {status}")

    def events(self, name: str) -> list[tuple[str, str]]:
        """What happened, in order: logical id and status."""
        return [(event["LogicalResourceId"], event["ResourceStatus"]) for event in self._events(name)]

    def reasons(self, name: str, status: str) -> str:
        """Why resources of a stack ever came to a status."""
        found = [event for event in self._events(name) if event["ResourceStatus"] == status]
        return "\n".join(event.get("ResourceStatusReason", "") for event in found)

    def _events(self, name: str) -> list[dict[str, Any]]:
        pages = self.client.get_paginator("describe_stack_events").paginate(StackName=name)
        return [event for page in pages for event in page["StackEvents"]][::-1]

    def physical_id(self, name: str, logical_id: str) -> str:
        """The physical id of a resource."""
        found = self.client.describe_stack_resources(StackName=name, LogicalResourceId=logical_id)
        physical: str = found["StackResources"][0]["PhysicalResourceId"]
        return physical

    def outputs(self, name: str) -> dict[str, str]:
        """A stack's outputs."""
        outputs = self.client.describe_stacks(StackName=name)["Stacks"][0]["Outputs"]
        return {output["OutputKey"]: output["OutputValue"] for output in outputs}


@pytest.fixture(scope="module")
def aws() -> Iterator[EmulatedAws]:
    with EmulatedAws() as emulated:
        yield emulated


@pytest.fixture
def stacks(aws: EmulatedAws) -> Iterator[Stacks]:
    """Stacks that are gone after the test."""
    yield (here := Stacks(aws))
    aws.account.faults.clear()
    for _ in range(3):  # One that another imports from goes in the next round.
        for stack in here.client.describe_stacks()["Stacks"]:
            here.delete(stack["StackName"])
    assert here.client.describe_stacks()["Stacks"] == []
