"""Custom resources: the function named by ServiceToken runs and answers."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.lambda_runtime import FunctionRuntime, Outcome
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles

_DEFAULT_TIMEOUT_S = 3600
# A function that returned has answered, or never will; asynchronous ones keep CloudFormation waiting.
_GRACE_S = 0.5
_RESPONSE_LIMIT = 4096
_REQUEST_LIMIT = 1_048_576


@handles
class CustomResource(Handler):
    """AWS::CloudFormation::CustomResource and every Custom::* type."""

    type = "AWS::CloudFormation::CustomResource"

    def create(self, request: Request) -> Made:
        return self._ask(request, "Create", {})

    def update(self, request: Request) -> Made:
        extra = {
            "PhysicalResourceId": request.physical_id,
            "OldResourceProperties": _strings(request.previous),
        }
        return self._ask(request, "Update", extra)

    def delete(self, request: Request) -> None:
        self._ask(request, "Delete", {"PhysicalResourceId": request.physical_id})

    def _ask(self, request: Request, kind: str, extra: dict[str, Any]) -> Made:
        token = request.properties["ServiceToken"]
        if not token.startswith("arn:aws:lambda:"):
            raise ResourceFailedError(f"Invalid service token: {token}: only Lambda functions are emulated")
        responses = request.account.responses
        mailbox = responses.open()
        properties = {key: value for key, value in request.properties.items() if key != "ServiceTimeout"}
        event = {
            "RequestType": kind,
            "ServiceToken": token,
            "ResponseURL": f"{request.account.endpoint}/_kvrelay/responses/{mailbox}",
            "StackId": request.stack_id,
            "RequestId": str(uuid.uuid4()),
            "LogicalResourceId": request.logical_id,
            "ResourceType": request.type,
            "ResourceProperties": _strings(properties),
            **extra,
        }
        outcome: list[Outcome] = []
        runtime = FunctionRuntime(request.account, request.region)
        worker = threading.Thread(target=lambda: outcome.append(runtime.invoke(token, event)), daemon=True)
        worker.start()
        timeout = float(request.properties.get("ServiceTimeout", _DEFAULT_TIMEOUT_S))
        answer = _await(responses, mailbox, worker, outcome, timeout)
        worker.join()
        logs = outcome[0].log_tail if outcome else ""
        if answer is None:
            said = outcome[0].error if outcome else ""
            raise ResourceFailedError(
                "CloudFormation did not receive a response from your Custom Resource. Please check your logs for "
                f"requestId [{event['RequestId']}]."
                + (f" {said}" if said else "")
                + (f" Last log lines:\n{logs}" if logs else "")
            )
        if answer.get("Status") != "SUCCESS":
            raise ResourceFailedError(
                f"Received response status [FAILED] from custom resource. Message returned: {answer.get('Reason')} "
                f"(RequestId: {event['RequestId']})" + (f" Last log lines:\n{logs}" if logs else ""),
                physical_id=str(answer.get("PhysicalResourceId") or ""),
            )
        physical = str(answer.get("PhysicalResourceId") or request.physical_id)
        data = answer.get("Data") or {}
        return Made(physical, dict(data))


def _await(
    responses: Any, mailbox: str, worker: threading.Thread, outcome: list[Outcome], timeout: float
) -> dict[str, Any] | None:
    """The answer; None when the function failed without one, or the time is over."""
    arrived: list[dict[str, Any] | None] = []
    waiter = threading.Thread(target=lambda: arrived.append(responses.take(mailbox, timeout)), daemon=True)
    waiter.start()
    while waiter.is_alive():
        waiter.join(0.02)
        if not worker.is_alive() and outcome and outcome[0].error:
            waiter.join(_GRACE_S)
            break
    return arrived[0] if arrived else None


def _strings(value: Any) -> Any:
    """Custom resources receive every scalar as text."""
    if isinstance(value, dict):
        return {key: _strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_strings(item) for item in value]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if value is None else str(value)
