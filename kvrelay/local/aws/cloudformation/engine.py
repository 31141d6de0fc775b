"""Brings a stack to a template, or takes it down: order, replacement, rollback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.cloudformation import parameters, schemas
from kvrelay.local.aws.cloudformation.changes import changed_properties, replaced_by
from kvrelay.local.aws.cloudformation.exports import evaluate_outputs, publish
from kvrelay.local.aws.cloudformation.intrinsics import Evaluator
from kvrelay.local.aws.cloudformation.outside import AccountOutside
from kvrelay.local.aws.cloudformation.resource_actions import ResourceActions
from kvrelay.local.aws.cloudformation.scheduling import reversed_needs, run_in_order
from kvrelay.local.aws.cloudformation.stacks import Stack, StackResource
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import AwsError, ResourceFailedError, ValidationError

_log = logging.getLogger(__name__)


class Deployment:
    """One create or update of a stack."""

    def __init__(
        self, account: Account, stack: Stack, template: Template, values: dict[str, str], tags: dict[str, str]
    ) -> None:
        self.stack = stack
        self.template = template
        self.values = values
        self.tags = tags
        self.is_update = stack.template is not None
        self._actions = ResourceActions(account, stack)
        self._resolved = parameters.evaluated(account, stack.region, template, values)
        self._evaluator = Evaluator(
            template,
            self._resolved,
            self,
            AccountOutside(account, stack.region),
            stack.id,
            stack.name,
            stack.region,
        )
        self._undo: list[Callable[[], None]] = []
        self._new: dict[str, StackResource] = {}
        self._superseded: dict[str, StackResource] = {}

    # What Ref and GetAtt return (intrinsics.Resources).
    def reference(self, name: str) -> Any:
        """A resource's physical id."""
        return self._existing(name).physical_id

    def attribute(self, name: str, attribute: str) -> Any:
        """A resource's attribute."""
        resource = self._existing(name)
        if attribute not in resource.attributes:
            raise ValidationError(
                f"Template error: resource {name} does not support attribute type {attribute} in Fn::GetAtt"
            )
        return resource.attributes[attribute]

    def _existing(self, name: str) -> StackResource:
        if name not in self.stack.resources:
            raise ValidationError(
                f"Template format error: Unresolved dependencies [{name}]. "
                "Cannot reference resources in the Conditions block of the template"
            )
        return self.stack.resources[name]

    def run(self) -> None:
        """Deploys; on failure rolls back, or stops where it failed when rollback is disabled."""
        verb = "UPDATE" if self.is_update else "CREATE"
        wanted = {n for n, r in self.template.resources.items() if self._evaluator.is_wanted(r)}
        needs = {name: self.template.dependencies(name) & wanted for name in wanted}
        failures = run_in_order(needs, lambda name: self._apply(name, needs[name]))
        reason = ""
        if failures:
            failed = ", ".join(sorted(failures))
            reason = f"The following resource(s) failed to {verb.lower()}: [{failed}]. "
        else:
            try:
                outputs = evaluate_outputs(self._evaluator, self.template)
                publish(self._actions.account.stacks(self.stack.region), self.stack, outputs)
            except AwsError as error:
                reason = error.message
        if reason:
            self._fail(verb, reason)
            return
        self._finish(verb, wanted)

    def _finish(self, verb: str, wanted: set[str]) -> None:
        stack = self.stack
        stack.template, stack.parameters, stack.tags = self.template, self.values, self.tags
        stack.resolved_parameters, stack.imports = self._resolved, self._evaluator.imports
        if self.is_update:
            stack.updated = datetime.now(UTC)
            stack.record("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            removed = {n: r for n, r in stack.resources.items() if n not in wanted}
            # An old one goes only after all that is new works; what fails to go is left behind, as on AWS.
            remove(self._actions, {**removed, **self._superseded}, superseded=frozenset(self._superseded))
            for name in removed:
                stack.resources.pop(name, None)
        stack.record(f"{verb}_COMPLETE")

    def _apply(self, name: str, needs: set[str]) -> None:
        definition = self.template.resources[name]
        old = self.stack.resources.get(name)
        try:
            properties = self._evaluator.value(definition.get("Properties") or {})
        except AwsError as error:
            failed = old or StackResource(name, definition["Type"], dependencies=needs)
            status = "UPDATE_FAILED" if old else "CREATE_FAILED"
            self.stack.record_resource(failed, status, error.message)
            raise ResourceFailedError(error.message) from error
        if old is None:
            self._create(name, definition, properties, needs)
            return
        if old.type != definition["Type"]:
            self.stack.record_resource(
                old,
                "UPDATE_FAILED",
                "Update of resource type is not permitted. "
                "The new template modifies resource type of the following resources: "
                f"[{name}]",
            )
            raise ResourceFailedError("Update of resource type is not permitted.")
        changed = changed_properties(old, properties, self.tags, self.stack.region)
        before_definition, before_needs = old.definition, old.dependencies
        if changed:
            replaced = replaced_by(old, properties, self.stack.region)
            if replaced:
                self._replace(old, definition, properties, needs, replaced)
                return
            self._update(old, properties)
        old.definition, old.dependencies = definition, needs
        self._undo.append(lambda: _restore(old, before_definition, before_needs))

    def _create(
        self, name: str, definition: dict[str, Any], properties: dict[str, Any], needs: set[str]
    ) -> StackResource:
        resource = StackResource(
            name,
            definition["Type"],
            properties=properties,
            definition=definition,
            dependencies=needs,
            tags=self.tags,
        )
        self._new[name] = resource
        former = self.stack.resources.get(name)
        self.stack.resources[name] = resource
        try:
            self._actions.create(resource)
        except ResourceFailedError:
            if former:
                self.stack.resources[name] = former
            raise
        return resource

    def _replace(
        self,
        old: StackResource,
        definition: dict[str, Any],
        properties: dict[str, Any],
        needs: set[str],
        replaced: set[str],
    ) -> None:
        name_property = schemas.physical_name_property(old.type, self.stack.region)
        named = name_property and properties.get(name_property)
        if named and named == old.properties.get(name_property or ""):
            reason = (
                f"CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {named} and update the stack again."
            )
            self.stack.record_resource(old, "UPDATE_FAILED", reason)
            raise ResourceFailedError(reason)
        self.stack.record_resource(
            old,
            "UPDATE_IN_PROGRESS",
            "Requested update requires the creation of a new physical resource; hence creating one.",
        )

        def put_back() -> None:
            self.stack.resources[old.logical_id] = old
            self.stack.record_resource(old, "UPDATE_COMPLETE")

        self._undo.append(put_back)
        self._create(old.logical_id, definition, properties, needs)
        self._superseded[old.logical_id] = old

    def _update(self, resource: StackResource, properties: dict[str, Any]) -> None:
        before, before_tags = resource.properties, resource.tags
        before_attributes, before_id = resource.attributes, resource.physical_id
        former = self._actions.update(resource, properties, self.tags)
        if former:
            # A custom resource that answered with another id was replaced: its old one is deleted in the clean-up.
            self._superseded[resource.logical_id] = StackResource(
                resource.logical_id,
                resource.type,
                physical_id=before_id,
                properties=before,
                attributes=before_attributes,
                definition=resource.definition,
                dependencies=resource.dependencies,
                tags=before_tags,
            )

        def revert() -> None:
            self._superseded.pop(resource.logical_id, None)
            self._actions.update(resource, before, before_tags)

        self._undo.append(revert)

    def _fail(self, verb: str, reason: str) -> None:
        stack = self.stack
        if stack.disable_rollback:
            stack.template, stack.parameters, stack.tags = self.template, self.values, self.tags
            stack.resolved_parameters, stack.imports = self._resolved, self._evaluator.imports
            stack.record(f"{verb}_FAILED", reason.strip())
            return
        if not self.is_update:
            stack.record("ROLLBACK_IN_PROGRESS", reason + "Rollback requested by user.")
            stack.template, stack.parameters, stack.tags = self.template, self.values, self.tags
            left = remove(self._actions, self._new, created_now=True)
            stack.outputs, stack.exports, stack.imports = {}, {}, set()
            stack.record("ROLLBACK_FAILED" if left else "ROLLBACK_COMPLETE")
            return
        stack.record("UPDATE_ROLLBACK_IN_PROGRESS", reason.strip())
        for undo in reversed(self._undo):
            try:
                undo()
            except (ResourceFailedError, AwsError) as error:
                stack.record("UPDATE_ROLLBACK_FAILED", str(error))
                return
        stack.record("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS")
        remove(self._actions, self._new, created_now=True)
        for name, resource in self._new.items():
            if stack.resources.get(name) is resource:
                del stack.resources[name]
        stack.record("UPDATE_ROLLBACK_COMPLETE")


def _restore(resource: StackResource, definition: dict[str, Any], needs: set[str]) -> None:
    resource.definition, resource.dependencies = definition, needs


def remove(
    actions: ResourceActions,
    resources: dict[str, StackResource],
    *,
    superseded: frozenset[str] = frozenset(),
    created_now: bool = False,
    keep: frozenset[str] = frozenset(),
) -> dict[str, Exception]:
    """Deletes resources, users before what they use; returns the failures. Retained ones are skipped."""

    def delete(name: str) -> None:
        resource = resources[name]
        rule = resource.policy("UpdateReplacePolicy" if name in superseded else "DeletionPolicy")
        retained = rule == "Retain" or (rule == "RetainExceptOnCreate" and not created_now)
        if name in keep or (retained and resource.physical_id):
            actions.stack.record_resource(resource, "DELETE_SKIPPED")
            return
        actions.delete(resource)

    needs = {name: resource.dependencies for name, resource in resources.items()}
    return run_in_order(reversed_needs(needs), delete, go_on=True)


def delete_stack(account: Account, stack: Stack, keep: frozenset[str]) -> None:
    """Takes a stack down; what can't go leaves it in DELETE_FAILED."""
    store = account.stacks(stack.region)
    for export in stack.exports:
        users = [user.name for user in store.importers(export)]
        if users:
            stack.record(
                "DELETE_FAILED",
                f"Delete canceled. Cannot delete export {export} as it is in use by {', '.join(users)}.",
            )
            return
    resources = {n: r for n, r in stack.resources.items() if r.status != "DELETE_COMPLETE"}
    failures = remove(ResourceActions(account, stack), resources, keep=keep)
    for name, resource in list(stack.resources.items()):
        if resource.status in ("DELETE_COMPLETE", "DELETE_SKIPPED"):
            del stack.resources[name]
    if failures:
        failed = ", ".join(sorted(failures))
        stack.record("DELETE_FAILED", f"The following resource(s) failed to delete: [{failed}]. ")
        return
    stack.exports, stack.imports, stack.outputs = {}, set(), {}
    stack.deleted = datetime.now(UTC)
    stack.record("DELETE_COMPLETE")
