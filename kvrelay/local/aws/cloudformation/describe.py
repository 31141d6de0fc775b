"""Stacks, change sets and events in the form that CloudFormation's API shows them."""

from __future__ import annotations

import copy
from typing import Any

from kvrelay.local.aws.cloudformation.stacks import ChangeSet, Event, Stack, StackResource
from kvrelay.local.aws.cloudformation.template import Template

PAGE = 100


def page(key: str, rows: list[dict[str, Any]], token: str | None) -> dict[str, Any]:
    """One page of `rows`, and the token of the next."""
    start = int(token or 0)
    result: dict[str, Any] = {key: rows[start : start + PAGE]}
    if start + PAGE < len(rows):
        result["NextToken"] = str(start + PAGE)
    return result


def stack(found: Stack) -> dict[str, Any]:
    """For DescribeStacks."""
    return _present(
        {
            **summary(found),
            "Description": (found.template.description if found.template else None) or None,
            "Parameters": parameters(found.template, found.parameters, found.resolved_parameters),
            "Capabilities": found.capabilities,
            "Outputs": list(found.outputs.values()),
            "Tags": tags(found.tags),
            "DisableRollback": found.disable_rollback,
            "RollbackConfiguration": {},
            "NotificationARNs": [],
            "RoleARN": found.role_arn,
            "EnableTerminationProtection": found.protected,
        }
    )


def summary(found: Stack) -> dict[str, Any]:
    """For ListStacks."""
    return _present(
        {
            "StackName": found.name,
            "StackId": found.id,
            "StackStatus": found.status,
            "StackStatusReason": found.reason,
            "CreationTime": found.created,
            "LastUpdatedTime": found.updated,
            "DeletionTime": found.deleted,
            "DriftInformation": {"StackDriftStatus": "NOT_CHECKED"},
        }
    )


def parameters(
    template: Template | None, values: dict[str, str], resolved: dict[str, Any]
) -> list[dict[str, str]]:
    """Parameters with their values, secret ones starred."""
    rows = []
    for name, value in values.items():
        declared = template.parameters.get(name, {}) if template else {}
        row = {"ParameterKey": name, "ParameterValue": "****" if declared.get("NoEcho") else value}
        if str(declared.get("Type", "")).startswith("AWS::SSM::") and name in resolved:
            row["ResolvedValue"] = str(resolved[name])
        rows.append(row)
    return rows


def tags(values: dict[str, str]) -> list[dict[str, str]]:
    """Tags as a list."""
    return [{"Key": key, "Value": value} for key, value in values.items()]


def change_set(found: Stack, change: ChangeSet, *, with_values: bool) -> dict[str, Any]:
    """For DescribeChangeSet; `with_values` adds what properties were and will be."""
    return _present(
        {
            "ChangeSetName": change.name,
            "ChangeSetId": change.id,
            "StackId": found.id,
            "StackName": found.name,
            "Description": change.description,
            "Parameters": parameters(change.template, change.parameters, {}),
            "CreationTime": change.created,
            "ExecutionStatus": change.execution,
            "Status": change.status,
            "StatusReason": change.reason,
            "Capabilities": change.capabilities,
            "Tags": tags(change.tags),
            "Changes": change.changes if with_values else [_without_values(c) for c in change.changes],
            "IncludeNestedStacks": False,
        }
    )


def _without_values(change: dict[str, Any]) -> dict[str, Any]:
    plain = copy.deepcopy(change)
    resource_change = plain["ResourceChange"]
    for key in ("BeforeContext", "AfterContext"):
        resource_change.pop(key, None)
    for detail in resource_change["Details"]:
        for key in ("BeforeValue", "AfterValue", "Path", "AttributeChangeType"):
            detail["Target"].pop(key, None)
    return plain


def event(found: Stack, happened: Event) -> dict[str, Any]:
    """For DescribeStackEvents."""
    return _present(
        {
            "StackId": found.id,
            "EventId": happened.id,
            "StackName": found.name,
            "LogicalResourceId": happened.logical_id,
            "PhysicalResourceId": happened.physical_id or None,
            "ResourceType": happened.type,
            "Timestamp": happened.time,
            "ResourceStatus": happened.status,
            "ResourceStatusReason": happened.reason,
            "ClientRequestToken": happened.token,
        }
    )


def operation_event(found: Stack, happened: Event) -> dict[str, Any]:
    """For DescribeEvents."""
    is_stack = happened.type == "AWS::CloudFormation::Stack"
    return {**event(found, happened), "EventType": "STACK_EVENT" if is_stack else "PROGRESS_UPDATE"}


def resource(found: Stack, deployed: StackResource) -> dict[str, Any]:
    """For DescribeStackResources."""
    return _present(
        {
            "StackName": found.name,
            "StackId": found.id,
            "LogicalResourceId": deployed.logical_id,
            "PhysicalResourceId": deployed.physical_id or None,
            "ResourceType": deployed.type,
            "Timestamp": deployed.changed,
            "LastUpdatedTimestamp": deployed.changed,
            "ResourceStatus": deployed.status,
            "ResourceStatusReason": deployed.reason,
            "DriftInformation": {"StackResourceDriftStatus": "NOT_CHECKED"},
        }
    )


def template_summary(template: Template) -> dict[str, Any]:
    """For GetTemplateSummary and ValidateTemplate."""
    return {
        "Description": template.description or None,
        "Parameters": [
            _present(
                {
                    "ParameterKey": name,
                    "DefaultValue": None if "Default" not in p else str(p["Default"]),
                    "ParameterType": p.get("Type", "String"),
                    "NoEcho": bool(p.get("NoEcho")),
                    "Description": p.get("Description"),
                }
            )
            for name, p in template.parameters.items()
        ],
        "ResourceTypes": sorted({r["Type"] for r in template.resources.values()}),
        "Capabilities": [],
    }


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
