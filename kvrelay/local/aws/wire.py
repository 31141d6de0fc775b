"""AWS's wire protocols: a request parsed to what boto3 sent, an answer written as boto3 reads it."""

import re
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

from moto.core.parse import PROTOCOL_PARSERS
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model
from werkzeug.wrappers import Request, Response

from kvrelay.local.aws.errors import AwsError

Operation = Callable[[dict[str, Any]], dict[str, Any]]


# Services whose calls may be answered ahead of moto, as requests are signed for them; the others stream or are many.
ANSWERED = frozenset(
    {
        "cloudformation",
        "cloudtrail",
        "ec2",
        "ecr",
        "eks",
        "iam",
        "secretsmanager",
        "servicequotas",
        "ssm",
        "sts",
    }
)
_MODEL_NAMES = {"servicequotas": "service-quotas"}


def credential_scope(environ: Mapping[str, Any]) -> tuple[str, str]:
    """The signing service and region of a request; empty when it isn't signed."""
    found = re.search(
        r"Credential=[^/]+/\d+/([^/]+)/([^/]+)/aws4_request", environ.get("HTTP_AUTHORIZATION", "")
    )
    return (found[2], found[1]) if found else ("", "")


@cache
def _routes(service: str) -> list[tuple[str, re.Pattern[str], str]]:
    routes = []
    model = get_service_model(_MODEL_NAMES.get(service, service))
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = http["requestUri"].split("?")[0]
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(path))
        routes.append((http["method"], re.compile(pattern + r"/?$"), name))
    return routes


def _operation_of(service: str, request: Request) -> tuple[str, dict[str, str]]:
    target = request.headers.get("X-Amz-Target", "").rpartition(".")[2]
    action = target or request.values.get("Action")
    if action:
        return action, {}
    path = str(request.environ.get("RAW_URI") or request.path).split("?")[0]
    for method, pattern, name in _routes(service):
        found = pattern.match(path)
        if found and method == request.method:
            return name, {key: unquote(value) for key, value in found.groupdict().items()}
    raise AwsError("UnknownOperationException", f"{request.method} {path} is no operation of {service}")


def operation_name(service: str, request: Request) -> str:
    """Which operation a request asks for; empty when it is none of the service's."""
    try:
        return _operation_of(service, request)[0]
    except AwsError:
        return ""


def answer(service: str, request: Request, operation_for: Callable[[str], Operation | None]) -> Response:
    """Runs the operation that `request` asks `service` for, and writes its result or its error."""
    model = get_service_model(_MODEL_NAMES.get(service, service))
    protocol = model.metadata["protocol"]
    name = next(iter(model.operation_names))
    try:
        name, path_values = _operation_of(service, request)
        operation = operation_for(name)
        if operation is None:
            raise AwsError("NotImplemented", f"{service} {name} is not emulated")
        parsed = PROTOCOL_PARSERS[protocol](model.operation_model(name)).parse(
            {
                "method": request.method,
                "values": request.values,
                "headers": request.headers,
                "body": request.get_data(cache=True),
                "url_path": request.path,
                "url_params": path_values,
            }
        )
        result: Any = operation(parsed)
    except AwsError as error:
        result = error
    serializer = get_serializer_class(_MODEL_NAMES.get(service, service), protocol)(
        model.operation_model(name), context=SerializationContext(str(uuid.uuid4()))
    )
    written = serializer.serialize(result)
    headers = {
        key: str(value) for key, value in written["headers"].items() if key.lower() != "content-length"
    }
    return Response(written["body"], status=written["status_code"], headers=headers)
