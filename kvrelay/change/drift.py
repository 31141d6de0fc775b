"""What CloudFormation's drift detection finds: resources that are no longer as they were deployed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvrelay.errors import UserError

_DETECTION_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Drifted:
    """One property that differs, or a whole resource that is gone."""

    stack: str
    resource: str
    """Logical id."""
    kind: str
    path: str | None
    """Where in its properties, as a JSON pointer; None when the resource was deleted."""
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Drift:
    """All that was found in a deployment's stacks."""

    drifted: tuple[Drifted, ...]
    unchecked: int
    """Resources that CloudFormation can't compare, custom resources (Kubernetes objects) among them."""

    @property
    def resources(self) -> int:
        """How many resources differ."""
        return len({(each.stack, each.resource) for each in self.drifted})


def detect(cloudformation: Any, stacks: Sequence[str]) -> Drift:
    """Runs drift detection on the stacks that stand, side by side. Raises UserError when none does, or it fails."""
    started = {name: _start(cloudformation, name) for name in stacks}
    standing = {name: detection for name, detection in started.items() if detection}
    if not standing:
        raise UserError(f"none of the stacks {', '.join(stacks)} stands there; deploy first")
    for name, detection in standing.items():
        _wait(cloudformation, name, detection)
    drifted: list[Drifted] = []
    unchecked = 0
    for name in standing:
        resources = list(_pages(cloudformation, "list_stack_resources", "StackResourceSummaries", name))
        results = list(_pages(cloudformation, "describe_stack_resource_drifts", "StackResourceDrifts", name))
        known = {"IN_SYNC", "MODIFIED", "DELETED"}
        compared = {
            each["LogicalResourceId"] for each in results if each["StackResourceDriftStatus"] in known
        }
        unchecked += sum(each["LogicalResourceId"] not in compared for each in resources)
        drifted += [found for each in results for found in _drifted(name, each)]
    return Drift(tuple(drifted), unchecked)


def _start(cloudformation: Any, stack: str) -> str | None:
    from botocore.exceptions import ClientError

    try:
        return str(cloudformation.detect_stack_drift(StackName=stack)["StackDriftDetectionId"])
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise


def _wait(cloudformation: Any, stack: str, detection: str) -> None:
    deadline = time.monotonic() + _DETECTION_SECONDS
    while True:
        answer = cloudformation.describe_stack_drift_detection_status(StackDriftDetectionId=detection)
        if answer["DetectionStatus"] == "DETECTION_COMPLETE":
            return
        if answer["DetectionStatus"] == "DETECTION_FAILED":
            reason = answer.get("DetectionStatusReason", "CloudFormation gives no reason")
            raise UserError(f"stack {stack}: drift detection failed: {reason}")
        if time.monotonic() > deadline:
            raise UserError(
                f"stack {stack}: drift detection did not end in {_DETECTION_SECONDS} s; run it again"
            )
        time.sleep(2)


def _pages(cloudformation: Any, operation: str, key: str, stack: str) -> Iterator[Any]:
    more: dict[str, str] = {}
    while True:
        page = getattr(cloudformation, operation)(StackName=stack, **more)
        yield from page[key]
        if not page.get("NextToken"):
            return
        more = {"NextToken": page["NextToken"]}


def _drifted(stack: str, result: dict[str, Any]) -> Iterator[Drifted]:
    resource, kind = result["LogicalResourceId"], result["ResourceType"]
    if result["StackResourceDriftStatus"] == "DELETED":
        yield Drifted(stack, resource, kind, None, "exists", "deleted")
    elif result["StackResourceDriftStatus"] == "MODIFIED":
        for each in result.get("PropertyDifferences", ()):
            yield Drifted(
                stack, resource, kind, each["PropertyPath"], each["ExpectedValue"], each["ActualValue"]
            )


def as_json(found: Drift) -> str:
    """Everything, for machines."""
    return json.dumps(
        {"drifted": [asdict(each) for each in found.drifted], "unchecked": found.unchecked}, indent=2
    )


def as_text(found: Drift) -> str:
    """For a terminal."""
    lines = [_summary(found)]
    lines += [
        f"  {each.stack}  {each.resource}{each.path or ''}: {each.expected} -> {each.found}"
        for each in found.drifted
    ]
    return "\n".join([*lines, _unchecked(found)])


def as_markdown(found: Drift) -> str:
    """For an issue."""
    lines = [f"### {_summary(found)}", ""]
    if found.drifted:
        lines += ["| stack | resource | property | as deployed | found |", "| --- | --- | --- | --- | --- |"]
    for each in found.drifted:
        cells = (each.stack, f"`{each.resource}`", each.path or "", each.expected, each.found)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if found.drifted:
        lines += ["", "Deploy again to set it back, or put the change into deployment.yaml."]
    return "\n".join([*lines, "", _unchecked(found)])


def _summary(found: Drift) -> str:
    count = found.resources
    if not count:
        return "everything is as it was deployed"
    return f"{count} resource{'' if count == 1 else 's'} drifted"


def _unchecked(found: Drift) -> str:
    return f"not compared by CloudFormation: {found.unchecked} resource{'' if found.unchecked == 1 else 's'}"
