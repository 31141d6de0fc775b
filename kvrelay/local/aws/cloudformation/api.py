"""CloudFormation's API operations."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlparse

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION, Account
from kvrelay.local.aws.cloudformation import describe
from kvrelay.local.aws.cloudformation.changes import Forecast
from kvrelay.local.aws.cloudformation.engine import Deployment, delete_stack
from kvrelay.local.aws.cloudformation.parameters import given_values
from kvrelay.local.aws.cloudformation.stacks import ChangeSet, Stack
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import AwsError, ValidationError
from kvrelay.local.aws.resources.registry import known_types

_log = logging.getLogger(__name__)
NO_CHANGES = (
    "The submitted information didn't contain changes. Submit different information to create a change set."
)
_UPDATABLE = {
    "CREATE_COMPLETE",
    "CREATE_FAILED",
    "UPDATE_COMPLETE",
    "UPDATE_FAILED",
    "UPDATE_ROLLBACK_COMPLETE",
}
Values = dict[str, Any]


class CloudFormationApi:
    """The operations, in one region."""

    def __init__(self, account: Account, region: str) -> None:
        self._account = account
        self._region = region
        self._store = account.stacks(region)

    def operation(self, name: str) -> Callable[[Values], Values] | None:
        """The method for an operation's name; None when it isn't emulated."""
        found: Callable[[Values], Values] | None = getattr(self, name, None) if name[0].isupper() else None
        return found

    # Change sets

    def CreateChangeSet(self, given: Values) -> Values:  # noqa: N802
        """Works out what would change; fails, with AWS's words, when nothing would."""
        kind = given.get("ChangeSetType", "UPDATE")
        if kind == "IMPORT":
            raise ValidationError("Resource import is not emulated")
        template = Template.parse(self._body(given, self._store.find(given["StackName"])))
        stack = self._store.find(given["StackName"])
        if kind == "UPDATE":
            stack = self._store.get(given["StackName"])
            self._require_updatable(stack)
        elif stack is None:
            stack = Stack(given["StackName"], self._region)
            self._store.all.append(stack)
            stack.record("REVIEW_IN_PROGRESS", "User Initiated")
        elif stack.status != "REVIEW_IN_PROGRESS":
            raise ValidationError(
                f"Stack [{stack.name}] already exists and cannot be created again with the "
                f"changeSet [{given['ChangeSetName']}]."
            )
        name = given["ChangeSetName"]
        if name in stack.change_sets:
            raise AwsError(
                "AlreadyExistsException",
                f"ChangeSet {name} cannot be created due to a mismatch with existing attribute Template",
            )
        change_set = ChangeSet(
            name,
            f"arn:{PARTITION}:cloudformation:{self._region}:{ACCOUNT_ID}:changeSet/{name}/{uuid.uuid4()}",
            kind,
            template,
            given_values(template, given.get("Parameters") or [], stack.parameters),
            self._tags(given, stack),
            given.get("Description"),
            list(given.get("Capabilities") or []),
            given.get("RoleARN"),
            disable_rollback=_disables_rollback(given),
        )
        stack.change_sets[name] = change_set
        self._fill(stack, change_set)
        return {"Id": change_set.id, "StackId": stack.id}

    def _fill(self, stack: Stack, change_set: ChangeSet) -> None:
        change_set.status, change_set.execution = "FAILED", "UNAVAILABLE"
        try:
            forecast = Forecast(
                self._account, stack, change_set.template, change_set.parameters, change_set.tags
            )
            change_set.changes = forecast.changes()
            empty = not change_set.changes and stack.template is not None and forecast.is_empty()
        except AwsError as error:
            change_set.reason = error.message
            return
        missing = _missing_capability(change_set.template, change_set.capabilities)
        if missing:
            change_set.reason = missing
        elif empty and stack.tags == change_set.tags:
            change_set.reason = NO_CHANGES
        else:
            change_set.status, change_set.execution = "CREATE_COMPLETE", "AVAILABLE"

    def DescribeChangeSet(self, given: Values) -> Values:  # noqa: N802
        """One change set."""
        stack, change_set = self._store.change_set(given.get("StackName"), given["ChangeSetName"])
        return describe.change_set(stack, change_set, with_values=bool(given.get("IncludePropertyValues")))

    def ListChangeSets(self, given: Values) -> Values:  # noqa: N802
        """A stack's change sets."""
        stack = self._store.get(given["StackName"])
        return {
            "Summaries": [
                describe.change_set(stack, c, with_values=False) for c in stack.change_sets.values()
            ]
        }

    def DeleteChangeSet(self, given: Values) -> Values:  # noqa: N802
        """Forgets a change set; one that isn't there is no error."""
        try:
            stack, change_set = self._store.change_set(given.get("StackName"), given["ChangeSetName"])
        except AwsError as error:
            if error.code == "ChangeSetNotFound":
                return {}
            raise
        del stack.change_sets[change_set.name]
        return {}

    def ExecuteChangeSet(self, given: Values) -> Values:  # noqa: N802
        """Starts what the change set describes."""
        stack, change_set = self._store.change_set(given.get("StackName"), given["ChangeSetName"])
        if change_set.execution != "AVAILABLE":
            raise AwsError(
                "InvalidChangeSetStatus",
                f"ChangeSet [{change_set.id}] cannot be executed in its current status of [{change_set.status}]",
            )
        disable = change_set.disable_rollback or _disables_rollback(given)
        stack.change_sets.clear()
        self._start(
            stack, change_set.template, change_set.parameters, change_set.tags, given, disable=disable
        )
        stack.capabilities, stack.role_arn = change_set.capabilities, change_set.role_arn
        return {}

    # Stacks

    def CreateStack(self, given: Values) -> Values:  # noqa: N802
        """Starts a new stack."""
        if self._store.find(given["StackName"]):
            raise AwsError("AlreadyExistsException", f"Stack [{given['StackName']}] already exists")
        template = Template.parse(self._body(given, None))
        missing = _missing_capability(template, given.get("Capabilities") or [])
        if missing:
            raise AwsError("InsufficientCapabilitiesException", missing)
        stack = Stack(given["StackName"], self._region)
        values = given_values(template, given.get("Parameters") or [], {})
        Forecast(self._account, stack, template, values, self._tags(given, stack)).changes()
        self._store.all.append(stack)
        stack.protected = bool(given.get("EnableTerminationProtection"))
        disable = _disables_rollback(given) or given.get("OnFailure") == "DO_NOTHING"
        self._start(stack, template, values, self._tags(given, stack), given, disable=disable)
        return {"StackId": stack.id}

    def UpdateStack(self, given: Values) -> Values:  # noqa: N802
        """Starts an update; nothing to change is an error, as on AWS."""
        stack = self._store.get(given["StackName"])
        self._require_updatable(stack)
        template = Template.parse(self._body(given, stack))
        values = given_values(template, given.get("Parameters") or [], stack.parameters)
        tags = self._tags(given, stack)
        forecast = Forecast(self._account, stack, template, values, tags)
        if not forecast.changes() and forecast.is_empty() and tags == stack.tags:
            raise ValidationError("No updates are to be performed.")
        self._start(stack, template, values, tags, given, disable=_disables_rollback(given))
        return {"StackId": stack.id}

    def DeleteStack(self, given: Values) -> Values:  # noqa: N802
        """Starts taking a stack down; a stack that isn't there is no error."""
        stack = self._store.find(given["StackName"])
        if stack is None or stack.status == "DELETE_COMPLETE":
            return {}
        if stack.protected:
            raise ValidationError(
                f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        if stack.is_busy:
            raise ValidationError(f"Stack [{stack.name}] cannot be deleted while in status {stack.status}")
        stack.token = given.get("ClientRequestToken")
        stack.record("DELETE_IN_PROGRESS", "User Initiated")
        keep = frozenset(given.get("RetainResources") or ())
        self._in_background(stack, lambda: delete_stack(self._account, stack, keep), "DELETE_FAILED")
        return {}

    def UpdateTerminationProtection(self, given: Values) -> Values:  # noqa: N802
        """Protects a stack, or stops doing so."""
        stack = self._store.get(given["StackName"])
        stack.protected = bool(given["EnableTerminationProtection"])
        return {"StackId": stack.id}

    # Descriptions

    def DescribeStacks(self, given: Values) -> Values:  # noqa: N802
        """One stack, or all that live."""
        name = given.get("StackName")
        stacks = [self._store.get(name)] if name else self._store.live()
        return {"Stacks": [describe.stack(stack) for stack in stacks]}

    def ListStacks(self, given: Values) -> Values:  # noqa: N802
        """All stacks, deleted ones too."""
        wanted = given.get("StackStatusFilter")
        stacks = [s for s in self._store.all if not wanted or s.status in wanted]
        return {"StackSummaries": [describe.summary(stack) for stack in reversed(stacks)]}

    def DescribeStackEvents(self, given: Values) -> Values:  # noqa: N802
        """A stack's history, newest first."""
        stack = self._stack_with_events(given)
        return describe.page(
            "StackEvents", [describe.event(stack, e) for e in reversed(stack.events)], given.get("NextToken")
        )

    def DescribeEvents(self, given: Values) -> Values:  # noqa: N802
        """The same history in the newer form; early validation finds nothing here."""
        if given.get("ChangeSetName"):
            return {"OperationEvents": []}
        stack = self._stack_with_events(given)
        events = [describe.operation_event(stack, e) for e in reversed(stack.events)]
        return describe.page("OperationEvents", events, given.get("NextToken"))

    def _stack_with_events(self, given: Values) -> Stack:
        stack = self._store.find(given.get("StackName") or "")
        if stack is None:
            raise ValidationError(f"Stack [{given.get('StackName')}] does not exist")
        return stack

    def DescribeStackResources(self, given: Values) -> Values:  # noqa: N802
        """A stack's resources, or the one that a physical id belongs to."""
        physical = given.get("PhysicalResourceId")
        if physical:
            for stack in self._store.live():
                if any(r.physical_id == physical for r in stack.resources.values()):
                    return {"StackResources": [describe.resource(stack, r) for r in stack.resources.values()]}
            raise ValidationError(f"Stack for {physical} does not exist")
        stack = self._store.get(given["StackName"])
        logical = given.get("LogicalResourceId")
        return {
            "StackResources": [
                describe.resource(stack, r)
                for r in stack.resources.values()
                if not logical or r.logical_id == logical
            ]
        }

    def DescribeStackResource(self, given: Values) -> Values:  # noqa: N802
        """One resource."""
        stack = self._store.get(given["StackName"])
        found = stack.resources.get(given["LogicalResourceId"])
        if found is None:
            raise ValidationError(
                f"Resource {given['LogicalResourceId']} does not exist for stack {stack.name}"
            )
        return {"StackResourceDetail": describe.resource(stack, found)}

    def ListStackResources(self, given: Values) -> Values:  # noqa: N802
        """A stack's resources."""
        stack = self._store.get(given["StackName"])
        rows = [describe.resource(stack, r) for r in stack.resources.values()]
        return describe.page("StackResourceSummaries", rows, given.get("NextToken"))

    def ListExports(self, given: Values) -> Values:  # noqa: N802
        """Every exported name."""
        rows = [
            {"ExportingStackId": stack.id, "Name": name, "Value": value}
            for stack in self._store.live()
            for name, value in stack.exports.items()
        ]
        return describe.page("Exports", rows, given.get("NextToken"))

    def ListImports(self, given: Values) -> Values:  # noqa: N802
        """The stacks that import a name."""
        users = [stack.name for stack in self._store.importers(given["ExportName"])]
        if not users:
            raise ValidationError(f"Export '{given['ExportName']}' is not imported by any stack.")
        return {"Imports": users}

    def GetTemplate(self, given: Values) -> Values:  # noqa: N802
        """A stack's or a change set's template, as it was sent."""
        if given.get("ChangeSetName"):
            _, change_set = self._store.change_set(given.get("StackName"), given["ChangeSetName"])
            template: Template | None = change_set.template
        else:
            template = self._store.get(given["StackName"]).template
        body = template.body if template else "{}"
        return {"TemplateBody": body, "StagesAvailable": ["Original", "Processed"]}

    def GetTemplateSummary(self, given: Values) -> Values:  # noqa: N802
        """What a template holds."""
        stack = self._store.get(given["StackName"]) if given.get("StackName") else None
        template = stack.template if stack and stack.template else Template.parse(self._body(given, None))
        return describe.template_summary(template)

    def ValidateTemplate(self, given: Values) -> Values:  # noqa: N802
        """Whether a template can be right."""
        return describe.template_summary(Template.parse(self._body(given, None)))

    def ListTypes(self, given: Values) -> Values:  # noqa: N802
        """The types that can be deployed here."""
        return {"TypeSummaries": [{"Type": "RESOURCE", "TypeName": name} for name in known_types()]}

    # What they share

    def _start(
        self,
        stack: Stack,
        template: Template,
        values: dict[str, str],
        tags: dict[str, str],
        given: Values,
        *,
        disable: bool,
    ) -> None:
        verb = "UPDATE" if stack.template is not None else "CREATE"
        stack.disable_rollback = disable
        stack.token = given.get("ClientRequestToken")
        deployment = Deployment(self._account, stack, template, values, tags)
        stack.record(f"{verb}_IN_PROGRESS", "User Initiated")
        self._in_background(stack, deployment.run, f"{verb}_FAILED")

    def _in_background(self, stack: Stack, work: Callable[[], None], status_when_broken: str) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # The CLI would wait for ever.
                _log.exception("operation on stack %s", stack.name)
                stack.record(status_when_broken, f"Internal Failure: {type(error).__name__}: {error}")

        threading.Thread(target=run, daemon=True, name=f"stack-{stack.name}").start()

    def _require_updatable(self, stack: Stack) -> None:
        if stack.status not in _UPDATABLE:
            raise ValidationError(f"Stack:{stack.id} is in {stack.status} state and can not be updated.")

    def _tags(self, given: Values, stack: Stack) -> dict[str, str]:
        tags = given.get("Tags")
        return stack.tags if tags is None else {tag["Key"]: tag["Value"] for tag in tags}

    def _body(self, given: Values, stack: Stack | None) -> str:
        if given.get("UsePreviousTemplate") and stack and stack.template:
            return stack.template.body
        if given.get("TemplateBody"):
            return str(given["TemplateBody"])
        url = given.get("TemplateURL")
        if not url:
            raise ValidationError("Either Template URL or Template Body must be specified.")
        bucket, key = _bucket_and_key(url)
        from botocore.exceptions import ClientError

        try:
            found = self._account.client("s3", self._region).get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            raise ValidationError(f"S3 error: {error.response['Error']['Message']}") from error
        return str(found["Body"].read().decode())


def _bucket_and_key(url: str) -> tuple[str, str]:
    """S3's bucket and key from a virtual-hosted or a path-style URL."""
    parts = urlparse(url)
    host, path = parts.netloc, unquote(parts.path.lstrip("/"))
    label = host.split(".")[0]
    if label == "s3" or label.startswith("s3-") or host.split(":")[0] in ("localhost", "127.0.0.1"):
        bucket, _, key = path.partition("/")
        return bucket, key
    return host.split(".s3")[0].split(".localhost")[0], path


def _disables_rollback(given: Values) -> bool:
    return bool(given.get("DisableRollback") or (given.get("DeploymentConfig") or {}).get("DisableRollback"))


def _missing_capability(template: Template, capabilities: list[str]) -> str | None:
    roles = [r for r in template.resources.values() if r["Type"].startswith("AWS::IAM::")]
    if not roles:
        return None
    named = any(
        key in json.dumps(list((r.get("Properties") or {}).keys()))
        for r in roles
        for key in ("RoleName", "ManagedPolicyName", "InstanceProfileName", "UserName", "GroupName")
    )
    needed = {"CAPABILITY_NAMED_IAM"} if named else {"CAPABILITY_NAMED_IAM", "CAPABILITY_IAM"}
    if needed & set(capabilities):
        return None
    return f"Requires capabilities : [{'CAPABILITY_NAMED_IAM' if named else 'CAPABILITY_IAM'}]"
