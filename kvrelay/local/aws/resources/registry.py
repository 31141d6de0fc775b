"""The resource types that can be deployed, each a small class, found by name."""

from __future__ import annotations

import importlib
import secrets
import string
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.errors import ResourceFailedError

_MODULES = (
    "cloudformation",
    "cloudwatch",
    "compute",
    "custom",
    "ecr",
    "eks",
    "events",
    "iam",
    "kms",
    "lambda_functions",
    "logs",
    "messaging",
    "network",
    "network_gateways",
    "s3",
    "security_groups",
    "secrets_manager",
    "ssm",
    "step_functions",
)
_HANDLERS: dict[str, type[Handler]] = {}


@dataclass
class Request:
    """What a handler is asked to do: one resource of one stack, with its properties evaluated."""

    account: Account
    region: str
    stack_name: str
    stack_id: str
    stack_tags: dict[str, str]
    logical_id: str
    type: str
    properties: dict[str, Any]
    physical_id: str = ""
    previous: dict[str, Any] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """A boto3 client in the stack's region."""
        return self.account.client(service, self.region)

    def name(self, limit: int = 64, *, lower: bool = False) -> str:
        """A fresh physical name: stack, logical id and a random end, cut to `limit` characters."""
        end = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(12))
        room = limit - len(end) - 2
        half = room // 2
        stack = self.stack_name[: max(half, room - len(self.logical_id))]
        text = f"{stack}-{self.logical_id[: room - len(stack)]}-{end}"
        return text.lower() if lower else text

    def tags(self, given: Any = None) -> dict[str, str]:
        """The resource's tags over its stack's."""
        own = self.properties.get("Tags") if given is None else given
        if isinstance(own, list):
            own = {item["Key"]: str(item["Value"]) for item in own}
        return {**self.stack_tags, **(own or {})}

    def tag_list(self) -> list[dict[str, str]]:
        """`tags` in the form most APIs take."""
        return [{"Key": key, "Value": value} for key, value in self.tags().items()]


@dataclass
class Made:
    """What a handler made: its physical id, and what GetAtt returns. `reference` is Ref where it isn't the id."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict)


class Handler:
    """One resource type. Handlers raise ResourceFailedError or botocore's ClientError."""

    type: ClassVar[str]
    # Attributes that an update in place can change.
    unstable: ClassVar[frozenset[str]] = frozenset()

    def create(self, request: Request) -> Made:
        """Makes the resource."""
        raise NotImplementedError

    def update(self, request: Request) -> Made:
        """Changes it in place, from `request.previous` to `request.properties`."""
        changed = sorted(
            key
            for key in request.properties.keys() | request.previous.keys()
            if request.properties.get(key) != request.previous.get(key)
        )
        raise ResourceFailedError(f"{self.type}: a change of {', '.join(changed)} in place is not emulated")

    def delete(self, request: Request) -> None:
        """Removes it; one that is already gone is no error."""
        raise NotImplementedError

    def replaces(self, before: dict[str, Any], after: dict[str, Any]) -> set[str]:
        """Changed properties that need a new resource, beyond those that the type's schema names."""
        return set()


def handles(cls: type[Handler]) -> type[Handler]:
    """Registers a handler class under its type."""
    _HANDLERS[cls.type] = cls
    return cls


@cache
def _load() -> None:
    for module in _MODULES:
        importlib.import_module(f"kvrelay.local.aws.resources.{module}")


def handler_for(resource_type: str) -> Handler | None:
    """The handler of a type; None for a type nobody knows."""
    _load()
    if resource_type.startswith("Custom::"):
        resource_type = "AWS::CloudFormation::CustomResource"
    found = _HANDLERS.get(resource_type)
    return found() if found else None


def known_types() -> list[str]:
    """Every type that can be deployed."""
    _load()
    return sorted(_HANDLERS)
