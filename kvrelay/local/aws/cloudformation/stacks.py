"""Stacks, their resources, change sets and events, as kept in memory."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import AwsError, ValidationError


@dataclass
class StackResource:
    """One resource of a stack, as last deployed."""

    logical_id: str
    type: str
    physical_id: str = ""
    properties: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    definition: dict[str, Any] = field(default_factory=dict)
    dependencies: set[str] = field(default_factory=set)
    tags: dict[str, str] = field(default_factory=dict)
    status: str = ""
    reason: str | None = None
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))

    def policy(self, name: str) -> str:
        """Its DeletionPolicy or UpdateReplacePolicy."""
        return str(self.definition.get(name) or "Delete")


@dataclass
class Event:
    """One line of a stack's history."""

    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str | None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    time: datetime = field(default_factory=lambda: datetime.now(UTC))
    token: str | None = None


@dataclass
class ChangeSet:
    """What executing would change, and all that executing needs."""

    name: str
    id: str
    kind: str
    template: Template
    parameters: dict[str, str]
    tags: dict[str, str]
    description: str | None = None
    capabilities: list[str] = field(default_factory=list)
    role_arn: str | None = None
    status: str = "CREATE_PENDING"
    execution: str = "UNAVAILABLE"
    reason: str | None = None
    changes: list[dict[str, Any]] = field(default_factory=list)
    disable_rollback: bool = False
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


@dataclass
class Stack:
    """One stack."""

    name: str
    region: str
    id: str = ""
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    template: Template | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    resolved_parameters: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    capabilities: list[str] = field(default_factory=list)
    role_arn: str | None = None
    protected: bool = False
    disable_rollback: bool = False
    resources: dict[str, StackResource] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    exports: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    change_sets: dict[str, ChangeSet] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime | None = None
    deleted: datetime | None = None
    token: str | None = None

    def __post_init__(self) -> None:
        self.id = self.id or (
            f"arn:{PARTITION}:cloudformation:{self.region}:{ACCOUNT_ID}:stack/{self.name}/{uuid.uuid4()}"
        )

    @property
    def is_busy(self) -> bool:
        """Whether an operation is under way."""
        return self.status.endswith("_IN_PROGRESS") and self.status != "REVIEW_IN_PROGRESS"

    def record(self, status: str, reason: str | None = None) -> None:
        """Moves the stack to `status`, with its event."""
        self.status, self.reason = status, reason
        self.events.append(
            Event(self.name, self.id, "AWS::CloudFormation::Stack", status, reason, token=self.token)
        )

    def record_resource(self, resource: StackResource, status: str, reason: str | None = None) -> None:
        """Moves a resource to `status`, with its event."""
        resource.status, resource.reason, resource.changed = status, reason, datetime.now(UTC)
        self.events.append(
            Event(resource.logical_id, resource.physical_id, resource.type, status, reason, token=self.token)
        )


class StackStore:
    """The stacks of one region, deleted ones included."""

    def __init__(self) -> None:
        self.all: list[Stack] = []

    def live(self) -> list[Stack]:
        """Stacks that were not deleted."""
        return [stack for stack in self.all if stack.status != "DELETE_COMPLETE"]

    def find(self, name_or_id: str) -> Stack | None:
        """A stack: by id even when deleted, by name only while it lives."""
        for stack in reversed(self.all):
            if stack.id == name_or_id:
                return stack
            if stack.name == name_or_id and stack.status != "DELETE_COMPLETE":
                return stack
        return None

    def get(self, name_or_id: str) -> Stack:
        """Like `find`; raises AWS's error when there is none."""
        stack = self.find(name_or_id)
        if stack is None:
            raise ValidationError(f"Stack with id {name_or_id} does not exist")
        return stack

    def change_set(self, stack_name: str | None, name_or_id: str) -> tuple[Stack, ChangeSet]:
        """A change set and its stack."""
        stacks = [self.get(stack_name)] if stack_name else self.all
        for stack in stacks:
            for change_set in stack.change_sets.values():
                if name_or_id in (change_set.name, change_set.id):
                    return stack, change_set
        raise AwsError("ChangeSetNotFound", f"ChangeSet [{name_or_id}] does not exist")

    def exporter(self, export: str) -> Stack | None:
        """The stack that exports a name."""
        return next((stack for stack in self.live() if export in stack.exports), None)

    def importers(self, export: str) -> list[Stack]:
        """The stacks that import a name."""
        return [stack for stack in self.live() if export in stack.imports]
