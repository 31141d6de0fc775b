"""The loopback server: sends each request to our CloudFormation, EKS or Lambda runtime, and the rest to moto."""

import io
import json
import re
import socket
import threading
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from kvrelay.errors import UserError
from kvrelay.local.aws import leftovers, wire
from kvrelay.local.aws.account import Account
from kvrelay.local.aws.cloudformation.api import CloudFormationApi
from kvrelay.local.aws.ec2_api import Ec2Api
from kvrelay.local.aws.ecr_api import EcrApi
from kvrelay.local.aws.eks.api import EksApi
from kvrelay.local.aws.faults import Fault
from kvrelay.local.aws.lambda_runtime import FunctionRuntime
from kvrelay.local.aws.ssm_api import SsmApi

CONTROL = "/_kvrelay/"
_INVOCATION = re.compile(r"/2015-03-31/functions/(?P<name>.+)/invocations$")


class FrontEnd:
    """The WSGI application in front of moto."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._moto = DomainDispatcherApplication(create_backend_app)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith(CONTROL):
            return self._control(Request(environ), path.removeprefix(CONTROL))(environ, start_response)
        service, region = wire.credential_scope(environ)
        if service in wire.ANSWERED:
            request = _kept(environ)
            name = wire.operation_name(service, request)
            if answer := self.account.answers.find(service, name):
                return wire.answer(service, request, lambda _: answer)(environ, start_response)
            environ["wsgi.input"] = io.BytesIO(request.get_data())
        if service == "cloudformation":
            api = CloudFormationApi(self.account, region)
            return wire.answer(service, Request(environ), api.operation)(environ, start_response)
        if service == "eks":
            eks = EksApi(self.account, region)
            return wire.answer(service, Request(environ), eks.operation)(environ, start_response)
        if service == "ecr":
            request = _kept(environ)
            ecr = EcrApi(self.account, region)
            if ecr.operation(wire.operation_name(service, request)):
                return wire.answer(service, request, ecr.operation)(environ, start_response)
            environ["wsgi.input"] = io.BytesIO(request.get_data())
        if service == "ec2":
            request = _kept(environ)
            ec2 = Ec2Api(self.account, region)
            if ec2.operation(request.values.get("Action", "")):
                return wire.answer(service, request, ec2.operation)(environ, start_response)
            environ["wsgi.input"] = io.BytesIO(request.get_data())
        if service == "ssm":
            request = _kept(environ)
            ssm = SsmApi(region)
            if ssm.answers(request):
                return wire.answer(service, request, ssm.operation)(environ, start_response)
            environ["wsgi.input"] = io.BytesIO(request.get_data())
        invocation = _INVOCATION.search(path) if service == "lambda" else None
        if invocation:
            request = Request(environ)
            reply = self._invoke(region, invocation["name"], request)
            return reply(environ, start_response)
        moto: Iterable[bytes] = self._moto(environ, start_response)
        return moto

    def _invoke(self, region: str, name: str, request: Request) -> Response:
        runtime = FunctionRuntime(self.account, region)
        event = json.loads(request.get_data() or b"null")
        if request.headers.get("X-Amz-Invocation-Type") == "Event":
            threading.Thread(target=runtime.invoke, args=(name, event), daemon=True).start()
            return Response(status=202)
        result = runtime.invoke(name, event)
        headers = {"X-Amz-Executed-Version": "$LATEST"}
        if result.error:
            headers["X-Amz-Function-Error"] = "Unhandled"
        return Response(json.dumps(result.payload), headers=headers, content_type="application/json")

    def _control(self, request: Request, action: str) -> Response:
        if action == "ready":
            return _json({"account": "ready"})
        if action.startswith("responses/"):
            token = action.removeprefix("responses/")
            known = self.account.responses.put(token, json.loads(request.get_data()))
            return Response(status=200 if known else 404)
        if action == "faults":
            if request.method == "DELETE":
                self.account.faults.clear()
            else:
                self.account.faults.add(Fault(**json.loads(request.get_data())))
            return _json({})
        if action == "leftovers":
            rows = leftovers.leftovers(
                self.account,
                region=request.args.get("region", self.account.region),
                bootstrap=request.args.get("bootstrap") != "ignore",
            )
            return _json([row.as_dict() for row in rows])
        if action == "kubernetes-token":
            region, cluster = request.args["region"], request.args["cluster"]
            return _json({"token": self.account.eks(region).kubernetes_token(cluster)})
        return Response(status=404)


def _kept(environ: dict[str, Any]) -> Request:
    """A request whose body can be read twice."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    body = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(body)
    request = Request(environ)
    request.get_data(cache=True, parse_form_data=False)
    environ["wsgi.input"] = io.BytesIO(body)
    return request


def _json(value: Any) -> Response:
    return Response(json.dumps(value, default=str), content_type="application/json")


class _QuietHandler(MotoRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        """Errors are logged, requests aren't: the CLI polls."""
        if type == "error":
            super().log(type, message, *args)


class Server:
    """The front end, listening on loopback in a thread of its own."""

    def __init__(self, account: Account, port: int) -> None:
        if port and _taken(port):
            raise UserError(f"port {port} is taken: give --port another number, or 0 for any free one")
        try:
            self._server = make_server(
                "127.0.0.1", port, FrontEnd(account), threaded=True, request_handler=_QuietHandler
            )
        except SystemExit as error:
            raise UserError(
                f"port {port} is taken: give --port another number, or 0 for any free one"
            ) from error
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def start(self) -> None:
        """Serves until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
