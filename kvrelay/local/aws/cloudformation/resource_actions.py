"""One resource created, updated or deleted, with its events, its planned faults and its errors in AWS's words."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.cloudformation import schemas
from kvrelay.local.aws.cloudformation.stacks import Stack, StackResource
from kvrelay.local.aws.errors import AwsError, ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handler_for

_log = logging.getLogger(__name__)


def is_custom(resource_type: str) -> bool:
    """Whether a function's code makes the resource; these run side by side."""
    return resource_type.startswith("Custom::") or resource_type == "AWS::CloudFormation::CustomResource"


class ResourceActions:
    """Creates, updates and deletes the resources of one stack."""

    def __init__(self, account: Account, stack: Stack) -> None:
        self.account = account
        self.stack = stack

    def create(self, resource: StackResource) -> None:
        """Creates `resource` from its properties and fills in its id and attributes."""
        self.stack.record_resource(resource, "CREATE_IN_PROGRESS")
        try:
            handler = self._checked(resource)
            with self._wording(resource, "CREATE"):
                made = handler.create(self._request(resource))
        except ResourceFailedError as error:
            resource.physical_id = error.physical_id
            self.stack.record_resource(resource, "CREATE_FAILED", str(error))
            raise
        self._take(resource, made)
        self.stack.record_resource(resource, "CREATE_IN_PROGRESS", "Resource creation Initiated")
        self.stack.record_resource(resource, "CREATE_COMPLETE")

    def update(self, resource: StackResource, properties: dict[str, Any], tags: dict[str, str]) -> str | None:
        """Changes `resource` in place; returns its former physical id when that changed."""
        self.stack.record_resource(resource, "UPDATE_IN_PROGRESS")
        previous, previous_tags, old_id = resource.properties, resource.tags, resource.physical_id
        resource.properties, resource.tags = properties, tags
        try:
            handler = self._checked(resource)
            with self._wording(resource, "UPDATE"):
                made = handler.update(self._request(resource, previous))
        except ResourceFailedError as error:
            resource.properties, resource.tags = previous, previous_tags
            self.stack.record_resource(resource, "UPDATE_FAILED", str(error))
            raise
        self._take(resource, made)
        self.stack.record_resource(resource, "UPDATE_COMPLETE")
        return old_id if old_id != resource.physical_id else None

    def delete(self, resource: StackResource) -> None:
        """Deletes `resource`; one that was never made is passed over."""
        self.stack.record_resource(resource, "DELETE_IN_PROGRESS")
        if resource.physical_id:
            try:
                handler = handler_for(resource.type)
                assert handler is not None
                with self._wording(resource, "DELETE"):
                    handler.delete(self._request(resource))
            except ResourceFailedError as error:
                self.stack.record_resource(resource, "DELETE_FAILED", str(error))
                raise
        self.stack.record_resource(resource, "DELETE_COMPLETE")

    def _checked(self, resource: StackResource) -> Handler:
        handler = handler_for(resource.type)
        if handler is None:
            raise ResourceFailedError(
                f"Unrecognized resource types: [{resource.type}]: the emulated AWS does not know this type"
            )
        found = schemas.faults(resource.type, self.stack.region, resource.properties)
        if found:
            raise ResourceFailedError(
                f"Properties validation failed for resource {resource.logical_id} with message:\n"
                + "\n".join(found)
            )
        return handler

    def _request(self, resource: StackResource, previous: dict[str, Any] | None = None) -> Request:
        return Request(
            account=self.account,
            region=self.stack.region,
            stack_name=self.stack.name,
            stack_id=self.stack.id,
            stack_tags=resource.tags,
            logical_id=resource.logical_id,
            type=resource.type,
            properties=schemas.coerced(resource.type, self.stack.region, resource.properties),
            physical_id=resource.physical_id,
            previous=schemas.coerced(resource.type, self.stack.region, previous or {}),
            attributes=dict(resource.attributes),
        )

    def _take(self, resource: StackResource, made: Made) -> None:
        resource.physical_id, resource.attributes = made.physical_id, made.attributes

    @contextlib.contextmanager
    def _wording(self, resource: StackResource, action: str) -> Iterator[None]:
        message = self.account.faults.strike(resource.type, action)
        if message is not None:
            raise ResourceFailedError(wrapped(message, "GeneralServiceException"))
        lock = contextlib.nullcontext() if is_custom(resource.type) else self.account.lock
        try:
            with lock:
                yield
        except ResourceFailedError:
            raise
        except ClientError as error:
            raise ResourceFailedError(_client_error(error)) from error
        except AwsError as error:
            raise ResourceFailedError(wrapped(error.message, _handler_code(error.code))) from error
        except (BotoCoreError, KeyError, TypeError, ValueError, AttributeError) as error:
            _log.exception("%s %s of %s", action, resource.type, resource.logical_id)
            raise ResourceFailedError(
                f"Internal Failure: the emulation of {resource.type} broke: {type(error).__name__}: {error}"
            ) from error


def wrapped(message: str, handler_code: str) -> str:
    """A service's message in CloudFormation's frame."""
    return (
        f'Resource handler returned message: "{message}" (RequestToken: {uuid.uuid4()}, '
        f"HandlerErrorCode: {handler_code})"
    )


def _client_error(error: ClientError) -> str:
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    service = error.operation_name
    return wrapped(f"{message} ({service}, Error Code: {code})", _handler_code(code))


def _handler_code(code: str) -> str:
    if "NotFound" in code or code.startswith("NoSuch"):
        return "NotFound"
    if "AlreadyExists" in code or "InUse" in code or "Duplicate" in code:
        return "AlreadyExists"
    return "InvalidRequest"
