"""The parameters that AWS itself publishes, and moto lacks: the images that EKS's nodes start from."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from werkzeug.wrappers import Request

from kvrelay.local.aws.account import PARTITION
from kvrelay.local.aws.eks.clusters import VERSIONS
from kvrelay.local.aws.errors import AwsError

Values = dict[str, Any]

# https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html names the paths and their variants.
_PREFIX = "/aws/service/eks/optimized-ami/"
_IMAGE = re.compile(
    _PREFIX + r"(?P<version>[\d.]+)/amazon-linux-2023/"
    r"(?:x86_64/(?:standard|nvidia|neuron)|arm64/(?:standard|nvidia))/recommended(?:/(?P<field>\w+))?$"
)


class SsmApi:
    """GetParameter for one request, where what it names is AWS's own."""

    def __init__(self, region: str) -> None:
        self._region = region

    def answers(self, request: Request) -> bool:
        """Whether the request asks for such a parameter; moto answers all others."""
        if request.headers.get("X-Amz-Target", "").rpartition(".")[2] != "GetParameter":
            return False
        return str(json.loads(request.get_data() or b"{}").get("Name", "")).startswith(_PREFIX)

    def operation(self, name: str) -> Callable[[Values], Values] | None:
        """The method for an operation's name."""
        return self.get_parameter if name == "GetParameter" else None

    def get_parameter(self, given: Values) -> Values:
        """One published parameter. Raises AwsError for a version or variant that EKS has no image of."""
        name = str(given["Name"])
        found = _IMAGE.match(name)
        fields = _image(name, found["version"]) if found and found["version"] in VERSIONS else {}
        value = (
            json.dumps(fields)
            if found and found["field"] is None
            else fields.get(found["field"] if found else "")
        )
        if not fields or value is None:
            raise AwsError("ParameterNotFound", f"Parameter {name} not found.")
        return {
            "Parameter": {
                "Name": name,
                "Type": "String",
                "Value": value,
                "Version": 1,
                "LastModifiedDate": datetime.now(UTC),
                "ARN": f"arn:{PARTITION}:ssm:{self._region}::parameter{name}",
                "DataType": "text",
            }
        }


def _image(name: str, version: str) -> dict[str, str]:
    """One image for each version and variant: the same at each question."""
    variant = name.partition("/recommended")[0]
    digits = hashlib.sha256(variant.encode()).hexdigest()[:17]
    kind, _, flavour = variant.removeprefix(f"{_PREFIX}{version}/amazon-linux-2023/").partition("/")
    return {
        "image_id": f"ami-{digits}",
        "image_name": f"amazon-eks-node-al2023-{kind}-{flavour}-{version}-v20261101",
        "release_version": f"{version}.0-20261101",
        "schema_version": "2",
    }
