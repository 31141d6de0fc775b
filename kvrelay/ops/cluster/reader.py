"""The cluster's objects as plain JSON, its pods' logs, and small commands in its pods."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvrelay.errors import UserError
from kvrelay.ops.cluster.access import Access, kubeconfig

Object = dict[str, Any]

_CONNECT_S, _READ_S = 5, 20
# A token is good for 15 minutes.
_TOKEN_S = 600


class ClusterError(UserError):
    """The API refused, or could not be reached; `status` is HTTP's, 0 when there was no answer."""

    exit_code = 1

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Cluster:
    """One cluster's API, through the Kubernetes Python client; safe to use from several threads."""

    def __init__(self, client: Any, url: str, context: str = "") -> None:
        self._client = client
        self._who = f"the context {context} of KUBECONFIG" if context else "your IAM identity"
        self.url = url

    def list(self, path: str, **query: str) -> list[Object]:
        """Every object of a list path such as /api/v1/pods. Raises ClusterError."""
        return list(self.get(path, **query).get("items") or ())

    def get(self, path: str, **query: str) -> Object:
        """One object. Raises ClusterError; `status` 404 where there is none."""
        found = json.loads(self._ask(path, query))
        if not isinstance(found, dict):
            raise ClusterError(f"{path}: the API server's answer is no object")
        return found

    def logs(
        self, namespace: str, pod: str, container: str, *, lines: int = 200, previous: bool = False
    ) -> str:
        """The last lines of a container, or of the one before it. Raises ClusterError."""
        query = {"container": container, "tailLines": str(lines), "previous": str(previous).lower()}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        return self._ask(path, query).decode(errors="replace")

    def run(
        self, namespace: str, pod: str, container: str, command: Sequence[str], *, seconds: float = 20
    ) -> str:
        """What a command in a container writes. Raises ClusterError: it can't be run, takes too long, or fails."""
        from kubernetes.client import ApiException
        from kubernetes.stream.ws_client import websocket_call
        from websocket import WebSocketException

        where = f"{namespace}/{pod}"
        configuration = self._client.configuration
        query = {"container": container, "stdout": "true", "stderr": "true"}
        key = configuration.get_api_key_with_prefix("BearerToken", "authorization")
        try:
            # The client's own exec ends in a traceback where the server refuses it.
            session = websocket_call(
                configuration,
                "GET",
                f"{configuration.host}/api/v1/namespaces/{namespace}/pods/{pod}/exec",
                query_params=[*query.items(), *(("command", part) for part in command)],
                headers={"authorization": key} if key else {},
                _preload_content=False,
                _request_timeout=_READ_S,
            )
        except ApiException as error_:
            said = _message(str(error_.reason).rpartition("-+-+-")[2]) or _first_line(error_.reason)
            raise ClusterError(f"exec in {where}: {said}") from None
        try:
            session.run_forever(timeout=seconds)
            code, refused = (None, "") if session.is_open() else _ending(session)
            output, error = session.read_stdout(timeout=0), session.read_stderr(timeout=0)
        except (OSError, WebSocketException) as broken:
            raise ClusterError(f"exec in {where}: {_first_line(broken)}") from None
        finally:
            with contextlib.suppress(OSError, WebSocketException):
                session.close()
        if code is None:
            raise ClusterError(f"exec in {where}: no end after {seconds:.0f} s")
        if refused:
            raise ClusterError(f"exec in {where}: {_first_line(refused)}")
        if code:
            said = (error or output).strip().splitlines()
            raise ClusterError(
                f"exec in {where} ended with {code}: {said[-1][:300] if said else 'no output'}"
            )
        return str(output)

    def delete(self, path: str) -> None:
        """Deletes one object. Raises ClusterError."""
        self._ask(path, {}, "DELETE")

    def _ask(self, path: str, query: dict[str, str], method: str = "GET") -> bytes:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            answer = self._client.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params={"Accept": "application/json"},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=(_CONNECT_S, _READ_S),
            )
            return bytes(answer.data)
        except ApiException as error:
            raise self._refusal(path, error) from None
        except (HTTPError, OSError) as error:
            reason = getattr(error, "reason", None) or error
            raise ClusterError(
                f"the cluster's API at {self.url} can't be reached: {_first_line(reason)}; "
                "its endpoint may be private: run from inside the VPC, or name your address in "
                "cluster.public_access_cidrs"
            ) from None

    def _refusal(self, path: str, error: Any) -> ClusterError:
        said = _message(error.body) or _first_line(error.reason)
        if error.status == 401:
            mend = "name it in cluster.admins, or set KUBECONFIG to a file that leads there"
            return ClusterError(f"the cluster at {self.url} does not know {self._who}; {mend}", 401)
        if error.status == 403:
            return ClusterError(f"not allowed to {self._who}: {said}", 403)
        return ClusterError(f"{path}: {said}", error.status or 0)


def connect(access: Access) -> Cluster:
    """A connection that renews its token. Raises UserError when a kubeconfig can't be used."""
    from kubernetes import client

    if access.kubeconfig:
        configuration = kubeconfig(access)
    else:
        configuration = client.Configuration()
        configuration.host = access.url
        # The client takes the authority as a file alone. It goes with the connection.
        folder = tempfile.TemporaryDirectory(prefix="kvrelay-")
        authority = Path(folder.name) / "ca.pem"
        authority.write_text(access.ca_pem)
        configuration.ssl_ca_cert = str(authority)
        token = _Token(access, folder)
        token(configuration)
        configuration.refresh_api_key_hook = token
    configuration.retries = False
    return Cluster(client.ApiClient(configuration), access.url, access.context)


class _Token:
    """Puts a fresh token into a configuration when the last one grows old."""

    def __init__(self, access: Access, folder: Any) -> None:
        self._access, self._folder = access, folder
        self._renewed = -float("inf")

    def __call__(self, configuration: Any) -> None:
        if self._access.token and time.monotonic() - self._renewed > _TOKEN_S:
            configuration.api_key = {"BearerToken": f"Bearer {self._access.token()}"}
            self._renewed = time.monotonic()

    def __deepcopy__(self, memo: Any) -> _Token:
        return self


def _ending(session: Any) -> tuple[int, str]:
    """The exit code, and why the server could not run the command at all, as its error channel says."""
    from kubernetes.stream.ws_client import ERROR_CHANNEL

    said = session.read_channel(ERROR_CHANNEL)
    try:
        status = json.loads(said)
        if status["status"] == "Success":
            return 0, ""
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [int(each["message"]) for each in causes if each.get("reason") == "ExitCode"]
        # A kubelet out of reach is told with the whole request, the command's text in it.
        return (
            (codes[0], "") if codes else (1, re.sub(r'\?[^"\s]*command=[^"\s]*', "", str(status["message"])))
        )
    except (ValueError, KeyError, TypeError):
        return 1, str(said)


def _message(body: Any) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def _first_line(error: Any) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
