"""Stack parameters: what was given, what the template says of them, and their values."""

import re
from typing import Any

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import ValidationError


def given_values(
    template: Template, requested: list[dict[str, Any]], previous: dict[str, str]
) -> dict[str, str]:
    """Each parameter's text: from the request, the previous deployment, or its default.

    Raises ValidationError for unknown, missing or impermissible ones.
    """
    wanted = {item["ParameterKey"]: item for item in requested}
    unknown = sorted(wanted.keys() - template.parameters.keys())
    if unknown:
        raise ValidationError(f"Parameters: [{', '.join(unknown)}] do not exist in the template")
    values: dict[str, str] = {}
    missing: list[str] = []
    for name, declared in template.parameters.items():
        item = wanted.get(name)
        if item and item.get("UsePreviousValue") and name in previous:
            values[name] = previous[name]
        elif item and "ParameterValue" in item:
            values[name] = str(item["ParameterValue"])
        elif "Default" in declared:
            values[name] = str(declared["Default"])
        else:
            missing.append(name)
    if missing:
        raise ValidationError(f"Parameters: [{', '.join(missing)}] must have values")
    for name, value in values.items():
        _check(name, template.parameters[name], value)
    return values


def _check(name: str, declared: dict[str, Any], value: str) -> None:
    complaint = declared.get("ConstraintDescription")
    allowed = [str(item) for item in declared.get("AllowedValues", ())]
    if allowed and value not in allowed:
        raise ValidationError(
            f"Parameter '{name}' must be one of AllowedValues" + (f": {complaint}" if complaint else "")
        )
    pattern = declared.get("AllowedPattern")
    if pattern and not re.fullmatch(str(pattern), value):
        raise ValidationError(f"Parameter '{name}' must match pattern {pattern}")
    if declared.get("Type") == "Number" and not re.fullmatch(r"-?\d+(\.\d+)?", value):
        raise ValidationError(f"Parameter '{name}' must be a number.")
    if "MinLength" in declared and len(value) < int(declared["MinLength"]):
        raise ValidationError(f"Parameter '{name}' must contain at least {declared['MinLength']} characters")
    if "MaxLength" in declared and len(value) > int(declared["MaxLength"]):
        raise ValidationError(f"Parameter '{name}' must contain at most {declared['MaxLength']} characters")


def evaluated(account: Account, region: str, template: Template, values: dict[str, str]) -> dict[str, Any]:
    """What Ref of each parameter returns: SSM looked up, lists split."""
    result: dict[str, Any] = {}
    for name, text in values.items():
        kind = str(template.parameters[name].get("Type", "String"))
        value: Any = text
        found = re.fullmatch(r"AWS::SSM::Parameter::Value<(.+)>", kind)
        if found:
            value, kind = _from_ssm(account, region, text), found[1]
        if kind == "CommaDelimitedList" or kind.startswith("List<"):
            value = [item.strip() for item in value.split(",")] if value else []
        result[name] = value
    return result


def _from_ssm(account: Account, region: str, name: str) -> str:
    from botocore.exceptions import ClientError

    try:
        found = account.client("ssm", region).get_parameter(Name=name)
    except ClientError as error:
        raise ValidationError(
            f"Unable to fetch parameters [{name}] from parameter store for this account."
        ) from error
    return str(found["Parameter"]["Value"])
