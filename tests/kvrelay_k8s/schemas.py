"""Checks a custom resource as an API server would: defaults, closed mappings, number ranges, CEL."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import cel
import jsonschema

Schema = dict[str, Any]
_RANGES = {"int32": 2**31, "int64": 2**63}


def openapi_schema(crd: Mapping[str, Any]) -> Schema:
    """The v1 schema of a CustomResourceDefinition."""
    (found,) = (version for version in crd["spec"]["versions"] if version["name"] == "v1")
    schema: Schema = found["schema"]["openAPIV3Schema"]
    return schema


def defaulted(value: Any, schema: Schema) -> Any:
    """The value with the schema's defaults filled in and nulls dropped."""
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        filled = {
            name: copy.deepcopy(field["default"]) for name, field in fields.items() if "default" in field
        }
        present = filled | {key: child for key, child in value.items() if child is not None}
        extra = schema.get("additionalProperties")
        rest = extra if isinstance(extra, dict) else {}
        return {key: defaulted(child, fields.get(key, rest)) for key, child in present.items()}
    return (
        [defaulted(child, schema.get("items", {})) for child in value] if isinstance(value, list) else value
    )


def faults(value: Any, schema: Schema) -> list[str]:
    """What an API server would refuse, with its place. Keys that it would drop in silence count too."""
    validator = jsonschema.Draft7Validator(_closed(schema))
    found = [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
        for error in validator.iter_errors(value)
    ]
    return found + [f"{path}: {message}" for path, message in _broken_rules(value, schema, "")]


def rules(schema: Schema, path: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Every CEL rule of a schema with the path it stands at."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, child in schema.get("properties", {}).items():
        yield from rules(child, f"{path}.{name}")
    if "items" in schema:
        yield from rules(schema["items"], f"{path}[]")


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Whether a CEL rule holds for a value, and its old one where the rule speaks of it."""
    return bool(cel.evaluate(rule, {"self": value, "oldSelf": old}) is True)


def _closed(schema: Schema) -> Schema:
    """The schema in which unknown keys are faults, with the ranges that `format` means."""
    closed = {key: value for key, value in schema.items() if key not in ("default", "description")}
    if "properties" in schema:
        closed["properties"] = {name: _closed(child) for name, child in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            closed["additionalProperties"] = False
    if isinstance(schema.get("additionalProperties"), dict):
        closed["additionalProperties"] = _closed(schema["additionalProperties"])
    if "items" in schema:
        closed["items"] = _closed(schema["items"])
    if schema.get("format") in _RANGES:
        bound = _RANGES[schema["format"]]
        closed["minimum"] = max(schema.get("minimum", -bound), -bound)
        closed["maximum"] = min(schema.get("maximum", bound - 1), bound - 1)
    if schema.get("x-kubernetes-int-or-string"):
        closed["anyOf"] = [{"type": "integer"}, {"type": "string"}]
        closed.pop("type", None)
    return closed


def _broken_rules(value: Any, schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not holds(rule["rule"], value):
            yield path, rule["message"]
    if isinstance(value, dict):
        for name, child in value.items():
            if name in schema.get("properties", {}):
                yield from _broken_rules(child, schema["properties"][name], f"{path}.{name}")
    if isinstance(value, list) and "items" in schema:
        for index, child in enumerate(value):
            yield from _broken_rules(child, schema["items"], f"{path}[{index}]")
