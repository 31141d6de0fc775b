"""KMS keys and their aliases."""

import json

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles

_DEFAULT_WINDOW_DAYS = 30


@handles
class Key(Handler):
    """AWS::KMS::Key."""

    type = "AWS::KMS::Key"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        arguments = {k: wanted[k] for k in ("KeyUsage", "KeySpec", "MultiRegion") if k in wanted}
        made = request.client("kms").create_key(
            Description=wanted.get("Description", ""),
            Tags=[{"TagKey": k, "TagValue": v} for k, v in request.tags().items()],
            **arguments,
        )["KeyMetadata"]
        request.physical_id = made["KeyId"]
        request.attributes = {"Arn": made["Arn"], "KeyId": made["KeyId"]}
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, key, wanted = request.client("kms"), request.physical_id, request.properties
        if "KeyPolicy" in wanted:
            client.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(wanted["KeyPolicy"]))
        if wanted.get("EnableKeyRotation"):
            client.enable_key_rotation(KeyId=key)
        elif request.previous.get("EnableKeyRotation"):
            client.disable_key_rotation(KeyId=key)
        client.update_key_description(KeyId=key, Description=wanted.get("Description", ""))
        if request.tags():
            client.tag_resource(
                KeyId=key, Tags=[{"TagKey": k, "TagValue": v} for k, v in request.tags().items()]
            )
        return Made(key, request.attributes)

    def delete(self, request: Request) -> None:
        days = request.properties.get("PendingWindowInDays", _DEFAULT_WINDOW_DAYS)
        try:
            request.client("kms").schedule_key_deletion(KeyId=request.physical_id, PendingWindowInDays=days)
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NotFoundException", "KMSInvalidStateException"):
                raise


@handles
class Alias(Handler):
    """AWS::KMS::Alias."""

    type = "AWS::KMS::Alias"

    def create(self, request: Request) -> Made:
        name = request.properties["AliasName"]
        request.client("kms").create_alias(AliasName=name, TargetKeyId=request.properties["TargetKeyId"])
        return Made(name, {"AliasName": name})

    def update(self, request: Request) -> Made:
        request.client("kms").update_alias(
            AliasName=request.physical_id, TargetKeyId=request.properties["TargetKeyId"]
        )
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        try:
            request.client("kms").delete_alias(AliasName=request.physical_id)
        except ClientError as error:
            if error.response["Error"]["Code"] != "NotFoundException":
                raise
