"""What a template would change in a stack: the contents of a change set."""

from __future__ import annotations

import json
from typing import Any

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.cloudformation import parameters, schemas
from kvrelay.local.aws.cloudformation.intrinsics import KNOWN_AFTER_APPLY, Evaluator
from kvrelay.local.aws.cloudformation.outside import AccountOutside
from kvrelay.local.aws.cloudformation.resource_actions import is_custom
from kvrelay.local.aws.cloudformation.stacks import Stack, StackResource
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import ValidationError
from kvrelay.local.aws.resources.registry import handler_for


def changed_properties(
    resource: StackResource, properties: dict[str, Any], tags: dict[str, str], region: str
) -> set[str]:
    """Names of the properties that differ from what is deployed; stack tags count as Tags."""
    before = schemas.coerced(resource.type, region, resource.properties)
    after = schemas.coerced(resource.type, region, properties)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if tags != resource.tags and "Tags" in (schemas.schema(resource.type, region) or {}).get(
        "properties", ()
    ):
        changed.add("Tags")
    return changed


def replaced_by(resource: StackResource, properties: dict[str, Any], region: str) -> set[str]:
    """Names of changed properties that need a new resource."""
    before = schemas.coerced(resource.type, region, resource.properties)
    after = schemas.coerced(resource.type, region, properties)
    replaced = schemas.replacing(resource.type, region, before, after)
    handler = handler_for(resource.type)
    return replaced | (handler.replaces(before, after) if handler else set())


class Forecast:
    """The changes that deploying a template would make, without making any."""

    def __init__(
        self, account: Account, stack: Stack, template: Template, values: dict[str, str], tags: dict[str, str]
    ) -> None:
        self._stack = stack
        self._template = template
        self._tags = tags
        self._fresh: set[str] = set()
        self._modified: set[str] = set()
        self._evaluator = Evaluator(
            template,
            parameters.evaluated(account, stack.region, template, values),
            self,
            AccountOutside(account, stack.region),
            stack.id,
            stack.name,
            stack.region,
        )

    def reference(self, name: str) -> Any:
        """A kept resource's id; what a new one will be is not known."""
        resource = self._stack.resources.get(name)
        return KNOWN_AFTER_APPLY if resource is None or name in self._fresh else resource.physical_id

    def attribute(self, name: str, attribute: str) -> Any:
        """A kept resource's attribute, unless the coming update can change it."""
        resource = self._stack.resources.get(name)
        if resource is None or name in self._fresh:
            return KNOWN_AFTER_APPLY
        if name in self._modified:
            handler = handler_for(resource.type)
            if is_custom(resource.type) or (handler and attribute in handler.unstable):
                return KNOWN_AFTER_APPLY
        return resource.attributes.get(attribute, KNOWN_AFTER_APPLY)

    def changes(self) -> list[dict[str, Any]]:
        """The ResourceChanges, new and changed ones in the order of creation, removed ones last."""
        self._check_rules()
        found = []
        wanted = [n for n in self._template.order() if self._evaluator.is_wanted(self._template.resources[n])]
        for name in wanted:
            change = self._change(name)
            if change:
                found.append({"Type": "Resource", "ResourceChange": change})
        found.extend(
            {
                "Type": "Resource",
                "ResourceChange": {
                    "PolicyAction": "Retain" if resource.policy("DeletionPolicy") == "Retain" else "Delete",
                    "Action": "Remove",
                    "LogicalResourceId": name,
                    "PhysicalResourceId": resource.physical_id,
                    "ResourceType": resource.type,
                    "Scope": [],
                    "Details": [],
                },
            }
            for name, resource in self._stack.resources.items()
            if name not in wanted
        )
        for block in self._template.outputs.values():
            if self._evaluator.is_wanted(block):
                self._evaluator.value(block)
        return found

    def is_empty(self) -> bool:
        """Whether nothing differs beyond resources: outputs too are as deployed."""
        before = self._stack.template
        return (
            before is not None and before.outputs == self._template.outputs and not self._new_output_values()
        )

    def _new_output_values(self) -> bool:
        for name, output in self._stack.outputs.items():
            block = self._template.outputs.get(name)
            if block is None:
                return True
            value = self._evaluator.value(block["Value"])
            if isinstance(value, str) and KNOWN_AFTER_APPLY not in value and value != output["OutputValue"]:
                return True
        return False

    def _check_rules(self) -> None:
        for name, rule in self._template.rules.items():
            for assertion in rule.get("Assertions", ()):
                if self._evaluator.value(assertion["Assert"]) is False:
                    reason = assertion.get("AssertDescription", name)
                    raise ValidationError(f"Template error: Rule {name} failed: {reason}")

    def _change(self, name: str) -> dict[str, Any] | None:
        definition = self._template.resources[name]
        properties = self._evaluator.value(definition.get("Properties") or {})
        resource = self._stack.resources.get(name)
        if resource is None:
            self._fresh.add(name)
            return {
                "Action": "Add",
                "LogicalResourceId": name,
                "ResourceType": definition["Type"],
                "Scope": [],
                "Details": [],
                "AfterContext": _context(properties),
            }
        changed = changed_properties(resource, properties, self._tags, self._stack.region)
        metadata = resource.definition.get("Metadata") != definition.get("Metadata")
        policies = any(
            resource.definition.get(key) != definition.get(key)
            for key in ("DeletionPolicy", "UpdateReplacePolicy")
        )
        if not changed and not metadata and not policies:
            return None
        replaced = replaced_by(resource, properties, self._stack.region) & changed if changed else set()
        if replaced:
            self._fresh.add(name)
        elif changed:
            self._modified.add(name)
        change = {
            "Action": "Modify",
            "LogicalResourceId": name,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": resource.type,
            "Replacement": "True" if replaced else "False",
            "Scope": sorted(
                {"Tags" if key == "Tags" else "Properties" for key in changed}
                | ({"Metadata"} if metadata else set())
                | ({"DeletionPolicy"} if policies else set())
            ),
            "Details": [self._detail(resource, properties, key, key in replaced) for key in sorted(changed)],
            "BeforeContext": _context(resource.properties),
            "AfterContext": _context(properties),
        }
        if replaced:
            retained = resource.policy("UpdateReplacePolicy") == "Retain"
            change["PolicyAction"] = "ReplaceAndRetain" if retained else "ReplaceAndDelete"
        return change

    def _detail(
        self, resource: StackResource, properties: dict[str, Any], key: str, is_replacing: bool
    ) -> dict[str, Any]:
        before, after = resource.properties.get(key), properties.get(key)
        target: dict[str, Any] = {
            "Attribute": "Tags" if key == "Tags" else "Properties",
            "RequiresRecreation": "Always" if is_replacing else "Never",
            "Path": f"/Properties/{key}",
            "AttributeChangeType": "Add" if before is None else "Remove" if after is None else "Modify",
        }
        if key != "Tags":
            target["Name"] = key
        if before is not None:
            target["BeforeValue"] = _text(before)
        if after is not None:
            target["AfterValue"] = _text(after)
        unknown = KNOWN_AFTER_APPLY in _text(after)
        return {
            "Target": target,
            "Evaluation": "Dynamic" if unknown else "Static",
            "ChangeSource": "DirectModification",
        }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _context(properties: dict[str, Any]) -> str:
    return json.dumps({"Properties": properties})
