"""A template as text turned into its sections, with the references its resources make."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

import yaml

from kvrelay.local.aws.errors import ValidationError

MAX_BODY = 1_048_576
_SECTIONS = {
    "AWSTemplateFormatVersion",
    "Conditions",
    "Description",
    "Mappings",
    "Metadata",
    "Outputs",
    "Parameters",
    "Resources",
    "Rules",
    "Transform",
}
_RESOURCE_KEYS = {
    "Condition",
    "CreationPolicy",
    "DeletionPolicy",
    "DependsOn",
    "Metadata",
    "Properties",
    "Type",
    "UpdatePolicy",
    "UpdateReplacePolicy",
}
_SUB_VARIABLE = re.compile(r"\$\{([^!}][^}]*)\}")


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags, and dates left as text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _short_tag(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        assert isinstance(node, yaml.MappingNode)
        value = loader.construct_mapping(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _short_tag)


@dataclass
class Template:
    """A parsed template; `body` is the text it was."""

    body: str
    resources: dict[str, dict[str, Any]]
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    conditions: dict[str, Any] = field(default_factory=dict)
    mappings: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    metadata: Any = None

    @classmethod
    def parse(cls, body: str) -> "Template":
        """Reads JSON or YAML; a template CloudFormation would refuse raises ValidationError with its words."""
        if len(body.encode()) > MAX_BODY:
            raise ValidationError(f"Template may not exceed {MAX_BODY} bytes in size.")
        try:
            document = json.loads(body) if body.lstrip().startswith("{") else yaml.load(body, _Loader)
        except (json.JSONDecodeError, yaml.YAMLError) as error:
            raise ValidationError(f"Template format error: {error}") from error
        if not isinstance(document, dict):
            raise ValidationError("Template format error: unsupported structure.")
        unknown = sorted(document.keys() - _SECTIONS)
        if unknown:
            raise ValidationError(f"Invalid template property or properties [{', '.join(unknown)}]")
        if document.get("Transform"):
            raise ValidationError(f"Transform {document['Transform']} is not emulated")
        resources = document.get("Resources") or {}
        if not resources:
            raise ValidationError("Template format error: At least one Resources member must be defined.")
        template = cls(
            body=body,
            resources=resources,
            parameters=document.get("Parameters") or {},
            conditions=document.get("Conditions") or {},
            mappings=document.get("Mappings") or {},
            outputs=document.get("Outputs") or {},
            rules=document.get("Rules") or {},
            description=document.get("Description") or "",
            metadata=document.get("Metadata"),
        )
        template._check()
        return template

    def _check(self) -> None:
        if len(self.resources) > 500:
            raise ValidationError(
                f"Template format error: Number of resources, {len(self.resources)}, "
                "is greater than maximum allowed, 500"
            )
        for name, resource in self.resources.items():
            if not re.fullmatch(r"[A-Za-z0-9]{1,255}", name):
                raise ValidationError(f"Template format error: Resource name {name} is non alphanumeric.")
            if "Type" not in resource:
                raise ValidationError(
                    f"Template format error: [/Resources/{name}] Every Resources object must "
                    "contain a Type member."
                )
            unknown = sorted(resource.keys() - _RESOURCE_KEYS)
            if unknown:
                raise ValidationError(f"Invalid template resource property '{unknown[0]}'")
        names = self.resources.keys() | self.parameters.keys()
        for section, block in (("Resources", self.resources), ("Outputs", self.outputs)):
            unresolved = sorted(
                {r for r in references(block) if r not in names and not r.startswith("AWS::")}
            )
            if unresolved:
                raise ValidationError(
                    f"Template format error: Unresolved resource dependencies [{', '.join(unresolved)}] in the "
                    f"{section} block of the template"
                )
        self.order()

    def dependencies(self, name: str) -> set[str]:
        """The resources that `name` needs before it can be created."""
        resource = self.resources[name]
        depends = resource.get("DependsOn") or []
        named = {depends} if isinstance(depends, str) else set(depends)
        for missing in sorted(named - self.resources.keys()):
            raise ValidationError(
                f"Template format error: Unresolved resource dependencies [{missing}] in the Resources block of "
                "the template"
            )
        return named | (set(references(resource.get("Properties"))) & self.resources.keys())

    def order(self) -> list[str]:
        """Resource names, each after all it depends on."""
        graph = {name: self.dependencies(name) for name in self.resources}
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            names = ", ".join(error.args[1])
            raise ValidationError(f"Circular dependency between resources: [{names}]") from error


def references(value: Any) -> Iterator[str]:
    """Every name that a template fragment refers to, by Ref, GetAtt or Sub."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        if len(value) == 1:
            [(key, argument)] = value.items()
            if key == "Ref" and isinstance(argument, str):
                yield argument
                return
            if key == "Fn::GetAtt":
                yield argument.split(".")[0] if isinstance(argument, str) else str(argument[0])
                return
            if key == "Fn::Sub":
                text, own = (argument, {}) if isinstance(argument, str) else argument
                yield from (v.split(".")[0] for v in _SUB_VARIABLE.findall(text) if v not in own)
                yield from references(own)
                return
        for item in value.values():
            yield from references(item)
