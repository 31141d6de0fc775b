"""Secrets Manager secrets."""

import json
import secrets
import string
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Secret(Handler):
    """AWS::SecretsManager::Secret."""

    type = "AWS::SecretsManager::Secret"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        arguments: dict[str, Any] = {k: wanted[k] for k in ("Description", "KmsKeyId") if k in wanted}
        if "SecretString" in wanted:
            arguments["SecretString"] = wanted["SecretString"]
        elif "GenerateSecretString" in wanted:
            arguments["SecretString"] = _generated(wanted["GenerateSecretString"])
        arn = request.client("secretsmanager").create_secret(
            Name=wanted.get("Name") or request.name(200), Tags=request.tag_list(), **arguments
        )["ARN"]
        return Made(arn, {"Id": arn})

    def update(self, request: Request) -> Made:
        client, wanted = request.client("secretsmanager"), request.properties
        arguments: dict[str, Any] = {k: wanted[k] for k in ("Description", "KmsKeyId") if k in wanted}
        if "SecretString" in wanted:
            arguments["SecretString"] = wanted["SecretString"]
        if arguments:
            client.update_secret(SecretId=request.physical_id, **arguments)
        if request.tags():
            client.tag_resource(SecretId=request.physical_id, Tags=request.tag_list())
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        try:
            request.client("secretsmanager").delete_secret(
                SecretId=request.physical_id, ForceDeleteWithoutRecovery=True
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ResourceNotFoundException":
                raise


def _generated(rules: dict[str, Any]) -> str:
    alphabet = string.ascii_letters + string.digits
    excluded = str(rules.get("ExcludeCharacters", ""))
    letters = [
        c for c in alphabet + ("" if rules.get("ExcludePunctuation") else "!#$%*+-=?_") if c not in excluded
    ]
    password = "".join(secrets.choice(letters) for _ in range(int(rules.get("PasswordLength", 32))))
    if "GenerateStringKey" in rules:
        template = json.loads(rules.get("SecretStringTemplate", "{}"))
        return json.dumps({**template, rules["GenerateStringKey"]: password})
    return password
