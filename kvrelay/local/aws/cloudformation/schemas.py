"""Resource types as their published schemas describe them: valid properties, and which ones can't change in place."""

from __future__ import annotations

import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, validators
from jsonschema.exceptions import ValidationError as SchemaError

# Types whose schema doesn't say that everything about them is fixed.
_ALL_CREATE_ONLY = {"AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPCGatewayAttachment"}


@cache
def _folder() -> Path:
    # cfn-lint brings the schemas; importing it would cost a second.
    found = importlib.util.find_spec("cfnlint")
    assert found is not None
    assert found.origin
    return Path(found.origin).parent / "data" / "schemas"


@cache
def _index(region: str) -> dict[str, str]:
    file = _folder() / "providers" / f"{region}.json"
    if not file.exists():
        file = _folder() / "providers" / "us-east-1.json"
    index: dict[str, str] = json.loads(file.read_text())
    return index


@cache
def schema(resource_type: str, region: str) -> dict[str, Any] | None:
    """The type's schema in `region`; None when the region doesn't have the type."""
    name = _index(region).get(resource_type)
    if name is None:
        return None
    loaded: dict[str, Any] = json.loads((_folder() / "resources" / f"{name}.json").read_text())
    return loaded


@cache
def create_only(resource_type: str, region: str) -> tuple[tuple[str, ...], ...]:
    """Paths of the properties whose change replaces the resource."""
    found = schema(resource_type, region) or {}
    if resource_type in _ALL_CREATE_ONLY:
        return tuple((name,) for name in found["properties"])
    return tuple(tuple(path.split("/")[2:]) for path in found.get("createOnlyProperties", ()))


@cache
def physical_name_property(resource_type: str, region: str) -> str | None:
    """The property that names the resource, where a name given by the template blocks replacement."""
    found = schema(resource_type, region) or {}
    identifier = [path.split("/")[-1] for path in found.get("primaryIdentifier", ())]
    fixed = {path[0] for path in create_only(resource_type, region) if len(path) == 1}
    if len(identifier) == 1 and identifier[0] in fixed and identifier[0].endswith("Name"):
        return str(identifier[0])
    return None


def replacing(resource_type: str, region: str, before: dict[str, Any], after: dict[str, Any]) -> set[str]:
    """Names of the top-level properties whose change from `before` to `after` needs a new resource."""
    return {
        path[0]
        for path in create_only(resource_type, region)
        if _at(before, path) != _at(after, path) and path[0] != "Tags"
    }


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if key == "*" or not isinstance(value, dict):
            return value
        value = value.get(key)
    return value


def faults(resource_type: str, region: str, properties: dict[str, Any]) -> list[str]:
    """What is wrong with evaluated properties, a line each, as CloudFormation words it; empty when nothing is."""
    validator = _validator(resource_type, region)
    if validator is None:
        return []
    return [_line(error) for error in validator.iter_errors(properties)]


def _line(error: Any) -> str:
    where = "#" + "".join(f"/{part}" for part in error.absolute_path)
    if error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        patterns = error.schema.get("patternProperties", {})
        extra = next(
            key for key in error.instance if key not in known and not any(re.search(p, key) for p in patterns)
        )
        return f"{where}: extraneous key [{extra}] is not permitted"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return f"{where}: required key [{missing}] not found"
    if error.validator == "readOnly":
        return f"{where}: {error.message}"
    if error.validator == "enum":
        return f"{where}: {error.instance} is not a valid enum value"
    if error.validator == "pattern":
        return f"{where}: failed validation constraint for keyword [pattern]"
    if error.validator == "type":
        kind = error.validator_value
        return f"{where}: expected type: {kind}, found: {type(error.instance).__name__}"
    return f"{where}: failed validation constraint for keyword [{error.validator}]"


@cache
def _validator(resource_type: str, region: str) -> Any:
    found = schema(resource_type, region)
    if found is None:
        return None
    body: dict[str, Any] = {
        key: found[key] for key in ("properties", "definitions", "required") if key in found
    }
    body["additionalProperties"] = found.get("additionalProperties", False)
    body["properties"] = dict(body["properties"])
    for path in found.get("readOnlyProperties", ()):
        parts = path.split("/")[2:]
        if len(parts) == 1:
            body["properties"].pop(parts[0], None)
    return _LENIENT(body)


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Any:
    # The schemas' patterns are ECMA's; the few that Python can't read hold nothing back.
    if not isinstance(instance, str):
        return
    try:
        matches = re.search(pattern, instance)
    except re.error:
        return
    if not matches:
        yield SchemaError(f"{instance!r} does not match {pattern!r}")


def _is_number(checker: Any, value: Any) -> bool:
    if isinstance(value, str):
        return bool(re.fullmatch(r"-?\d+(\.\d+)?", value))
    return isinstance(value, int | float) and not isinstance(value, bool)


# CloudFormation turns scalars into each other: "5" is an integer, "true" a boolean, 5 a string.
_LENIENT: Any = validators.extend(  # type: ignore[no-untyped-call]
    Draft7Validator,
    validators={"pattern": _pattern, "format": lambda *_: None},
    type_checker=Draft7Validator.TYPE_CHECKER.redefine_many(
        {
            "integer": _is_number,
            "number": _is_number,
            "boolean": lambda checker, value: isinstance(value, bool) or value in ("true", "false"),
            "string": lambda checker, value: isinstance(value, str | int | float | bool),
            "object": lambda checker, value: isinstance(value, dict | str),
        }
    ),
)


def coerced(resource_type: str, region: str, properties: dict[str, Any]) -> dict[str, Any]:
    """Properties with scalars in the type that the schema gives them."""
    found = schema(resource_type, region)
    if found is None:
        return properties
    result: dict[str, Any] = _coerce(properties, found, found.get("definitions", {}))
    return result


def _coerce(value: Any, part: Any, definitions: dict[str, Any]) -> Any:
    while isinstance(part, dict) and "$ref" in part:
        part = definitions.get(part["$ref"].split("/")[-1], {})
    if not isinstance(part, dict):
        return value
    if isinstance(value, dict):
        members = part.get("properties", {})
        return {key: _coerce(item, members.get(key), definitions) for key, item in value.items()}
    if isinstance(value, list):
        return [_coerce(item, part.get("items"), definitions) for item in value]
    kind = part.get("type")
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "integer" and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if kind == "number" and isinstance(value, str) and _is_number(None, value):
        return float(value)
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    return value
