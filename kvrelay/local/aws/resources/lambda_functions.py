"""Lambda functions, layers and permissions."""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles

_CONFIGURATION = (
    "Description",
    "Environment",
    "Handler",
    "KmsKeyArn",
    "Layers",
    "MemorySize",
    "Role",
    "Runtime",
    "Timeout",
    "TracingConfig",
)


def _gone(error: ClientError) -> bool:
    return bool(error.response["Error"]["Code"] == "ResourceNotFoundException")


def _code(code: dict[str, Any]) -> dict[str, Any]:
    if "ZipFile" in code:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as zipped:
            python = "def " in code["ZipFile"] or "import " in code["ZipFile"].split("\n")[0]
            zipped.writestr(
                "index.py" if python and "exports." not in code["ZipFile"] else "index.js", code["ZipFile"]
            )
        return {"ZipFile": archive.getvalue()}
    if "S3Bucket" not in code:
        raise ResourceFailedError(
            "AWS::Lambda::Function: Code must be ZipFile or S3Bucket and S3Key; container images "
            "are not emulated"
        )
    return {key: code[key] for key in ("S3Bucket", "S3Key", "S3ObjectVersion") if key in code}


@handles
class Function(Handler):
    """AWS::Lambda::Function."""

    type = "AWS::Lambda::Function"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        name = wanted.get("FunctionName") or request.name(64)
        _require_role(request, wanted["Role"])
        _remember_log_group(request, name)
        made = request.client("lambda").create_function(
            FunctionName=name,
            Code=_code(wanted["Code"]),
            Tags=request.tags(),
            **{key: wanted[key] for key in _CONFIGURATION if key in wanted},
        )
        return Made(name, {"Arn": made["FunctionArn"]})

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("lambda"), request.physical_id, request.properties
        _remember_log_group(request, name)
        if wanted["Code"] != request.previous["Code"]:
            client.update_function_code(FunctionName=name, **_code(wanted["Code"]))
        configuration = {key: wanted[key] for key in _CONFIGURATION if key in wanted}
        client.update_function_configuration(FunctionName=name, **configuration)
        arn = request.attributes["Arn"]
        before = client.list_tags(Resource=arn)["Tags"]
        gone = [key for key in before if key not in request.tags()]
        if gone:
            client.untag_resource(Resource=arn, TagKeys=gone)
        if request.tags():
            client.tag_resource(Resource=arn, Tags=request.tags())
        return Made(name, request.attributes)

    def delete(self, request: Request) -> None:
        try:
            request.client("lambda").delete_function(FunctionName=request.physical_id)
        except ClientError as error:
            if not _gone(error):
                raise


def _remember_log_group(request: Request, name: str) -> None:
    # moto doesn't keep a function's LoggingConfig.
    group = (request.properties.get("LoggingConfig") or {}).get("LogGroup")
    key = (request.region, name)
    if group:
        request.account.function_log_groups[key] = group
    else:
        request.account.function_log_groups.pop(key, None)


def _require_role(request: Request, arn: str) -> None:
    try:
        request.client("iam").get_role(RoleName=arn.split("/")[-1])
    except ClientError as error:
        raise ResourceFailedError(
            "The role defined for the function cannot be assumed by Lambda. "
            "(Service: Lambda, Status Code: 400)"
        ) from error


@handles
class LayerVersion(Handler):
    """AWS::Lambda::LayerVersion."""

    type = "AWS::Lambda::LayerVersion"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        keys = ("Description", "CompatibleRuntimes", "CompatibleArchitectures", "LicenseInfo")
        made = request.client("lambda").publish_layer_version(
            LayerName=wanted.get("LayerName") or request.name(140),
            Content=wanted["Content"],
            **{key: wanted[key] for key in keys if key in wanted},
        )
        return Made(made["LayerVersionArn"], {"LayerVersionArn": made["LayerVersionArn"]})

    def delete(self, request: Request) -> None:
        name, version = request.physical_id.split(":")[-2:]
        try:
            request.client("lambda").delete_layer_version(LayerName=name, VersionNumber=int(version))
        except ClientError as error:
            if not _gone(error):
                raise


@handles
class Permission(Handler):
    """AWS::Lambda::Permission."""

    type = "AWS::Lambda::Permission"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        statement = f"{request.name(60)}-{uuid.uuid4().hex[:8]}"
        keys = ("Action", "Principal", "SourceArn", "SourceAccount")
        request.client("lambda").add_permission(
            FunctionName=wanted["FunctionName"],
            StatementId=statement,
            **{key: wanted[key] for key in keys if key in wanted},
        )
        return Made(statement, {"Id": statement})

    def delete(self, request: Request) -> None:
        client, name = request.client("lambda"), request.properties["FunctionName"]
        try:
            policy = json.loads(client.get_policy(FunctionName=name)["Policy"])
            if any(s["Sid"] == request.physical_id for s in policy["Statement"]):
                client.remove_permission(FunctionName=name, StatementId=request.physical_id)
        except ClientError as error:
            if not _gone(error):
                raise
