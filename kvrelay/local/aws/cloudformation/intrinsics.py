"""Intrinsic functions, conditions and dynamic references, evaluated."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import ValidationError

_DYNAMIC = re.compile(r"\{\{resolve:(ssm|ssm-secure|secretsmanager):([^}]+)\}\}")
_SUB_VARIABLE = re.compile(r"\$\{(!?)([^}]+)\}")

KNOWN_AFTER_APPLY = "{{changeSet:KNOWN_AFTER_APPLY}}"


class Omitted:
    """The value of AWS::NoValue: whatever holds it is left out."""


OMITTED = Omitted()


class Resources(Protocol):
    """How references to resources are answered: for real while deploying, by forecast for a change set."""

    def reference(self, name: str) -> Any:
        """What Ref of the resource returns."""

    def attribute(self, name: str, attribute: str) -> Any:
        """What Fn::GetAtt returns."""


class Outside(Protocol):
    """What a stack reads from outside itself."""

    def import_value(self, export: str) -> str:
        """Another stack's exported value."""

    def zones(self, region: str) -> list[str]:
        """A region's Availability Zones."""

    def dynamic(self, service: str, reference: str) -> str:
        """The value of a dynamic reference."""


@dataclass
class Evaluator:
    """Evaluates a template's fragments for one stack operation."""

    template: Template
    parameters: dict[str, Any]
    resources: Resources
    outside: Outside
    stack_id: str
    stack_name: str
    region: str
    imports: set[str] = field(default_factory=set)
    _conditions: dict[str, bool] = field(default_factory=dict)

    def value(self, fragment: Any) -> Any:
        """`fragment` with everything in it evaluated; OMITTED members are dropped."""
        if isinstance(fragment, list):
            items = [self.value(item) for item in fragment]
            return [item for item in items if item is not OMITTED]
        if isinstance(fragment, str):
            return self._dynamic(fragment)
        if not isinstance(fragment, dict):
            return fragment
        if len(fragment) == 1:
            [(key, argument)] = fragment.items()
            if key == "Ref":
                return self._ref(argument)
            function = self._functions.get(key)
            if function:
                return function(self, argument)
            if key.startswith("Fn::"):
                raise ValidationError(f"Template error: {key} is not emulated")
        members = {key: self.value(item) for key, item in fragment.items()}
        return {key: item for key, item in members.items() if item is not OMITTED}

    def condition(self, name: str) -> bool:
        """Whether a named condition holds."""
        if name not in self._conditions:
            if name not in self.template.conditions:
                raise ValidationError(
                    f"Template error: unresolved condition dependency {name} in Conditions block"
                )
            self._conditions[name] = self._truth(self.template.conditions[name])
        return self._conditions[name]

    def is_wanted(self, block: dict[str, Any]) -> bool:
        """Whether a resource or an output is in this stack, by its Condition."""
        return "Condition" not in block or self.condition(block["Condition"])

    def _truth(self, fragment: Any) -> bool:
        if isinstance(fragment, dict) and len(fragment) == 1 and "Condition" in fragment:
            return self.condition(fragment["Condition"])
        value = self.value(fragment)
        return value if isinstance(value, bool) else str(value).lower() == "true"

    def _ref(self, name: str) -> Any:
        pseudo = {
            "AWS::AccountId": ACCOUNT_ID,
            "AWS::NotificationARNs": [],
            "AWS::NoValue": OMITTED,
            "AWS::Partition": PARTITION,
            "AWS::Region": self.region,
            "AWS::StackId": self.stack_id,
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        return self.resources.reference(name)

    def _get_att(self, argument: Any) -> Any:
        name, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        return self.resources.attribute(name, str(self.value(attribute)))

    def _sub(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument
        values = {key: self.value(item) for key, item in own.items()}

        def replace(match: re.Match[str]) -> str:
            literal, name = match.groups()
            if literal:
                return "${" + name + "}"
            if name in values:
                return text_of(values[name])
            return text_of(self._get_att(name) if "." in name and "::" not in name else self._ref(name))

        return self._dynamic(_SUB_VARIABLE.sub(replace, text))

    def _join(self, argument: Any) -> str:
        delimiter, items = argument
        values = self.value(items)
        if not isinstance(values, list):
            if values == KNOWN_AFTER_APPLY:
                return KNOWN_AFTER_APPLY
            raise ValidationError(
                "Template error: every Fn::Join object requires a list as its second parameter"
            )
        return self._dynamic(str(delimiter).join(text_of(item) for item in values))

    def _select(self, argument: Any) -> Any:
        index, items = argument
        values = self.value(items)
        if values == KNOWN_AFTER_APPLY:
            return values
        position = int(self.value(index))
        if not 0 <= position < len(values):
            raise ValidationError(
                f"Template error: Fn::Select cannot select nonexistent value at index {position}"
            )
        return values[position]

    def _split(self, argument: Any) -> Any:
        delimiter, text = argument
        value = self.value(text)
        return value if value == KNOWN_AFTER_APPLY else str(value).split(delimiter)

    def _if(self, argument: Any) -> Any:
        name, when_true, when_false = argument
        return self.value(when_true if self.condition(name) else when_false)

    def _equals(self, argument: Any) -> bool:
        left, right = (self.value(item) for item in argument)
        return text_of(left) == text_of(right)

    def _find_in_map(self, argument: Any) -> Any:
        name, top, second = (self.value(item) for item in argument[:3])
        try:
            return self.template.mappings[name][top][second]
        except KeyError:
            if len(argument) > 3:
                return self.value(argument[3]["DefaultValue"])
            raise ValidationError(
                f"Template error: Unable to get mapping for {name}::{top}::{second}"
            ) from None

    def _import_value(self, argument: Any) -> str:
        name = text_of(self.value(argument))
        self.imports.add(name)
        return self.outside.import_value(name)

    def _zones(self, argument: Any) -> list[str]:
        return self.outside.zones(text_of(self.value(argument)) or self.region)

    def _cidr(self, argument: Any) -> list[str]:
        block, count, bits = (self.value(item) for item in [*argument, 8][:3])
        subnets = ipaddress.ip_network(block).subnets(new_prefix=32 - int(bits))
        return [str(subnet) for subnet, _ in zip(subnets, range(int(count)), strict=False)]

    def _base64(self, argument: Any) -> str:
        return base64.b64encode(text_of(self.value(argument)).encode()).decode()

    def _contains(self, argument: Any) -> bool:
        items, value = (self.value(item) for item in argument)
        return text_of(value) in [text_of(item) for item in items]

    def _dynamic(self, text: str) -> str:
        if "{{resolve:" not in text:
            return text
        return _DYNAMIC.sub(lambda match: self.outside.dynamic(match[1], match[2]), text)

    _functions: dict[str, Callable[[Evaluator, Any], Any]] = field(
        init=False,
        repr=False,
        default_factory=lambda: {
            "Fn::And": lambda self, items: all(self._truth(item) for item in items),
            "Fn::Base64": Evaluator._base64,
            "Fn::Cidr": Evaluator._cidr,
            "Fn::Contains": Evaluator._contains,
            "Fn::Equals": Evaluator._equals,
            "Fn::FindInMap": Evaluator._find_in_map,
            "Fn::GetAZs": Evaluator._zones,
            "Fn::GetAtt": Evaluator._get_att,
            "Fn::If": Evaluator._if,
            "Fn::ImportValue": Evaluator._import_value,
            "Fn::Join": Evaluator._join,
            "Fn::Not": lambda self, items: not self._truth(items[0]),
            "Fn::Or": lambda self, items: any(self._truth(item) for item in items),
            "Fn::Select": Evaluator._select,
            "Fn::Split": Evaluator._split,
            "Fn::Sub": Evaluator._sub,
        },
    )


def text_of(value: Any) -> str:
    """A value inside a string, as CloudFormation prints it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(text_of(item) for item in value)
    return str(value)
