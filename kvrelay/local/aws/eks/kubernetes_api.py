"""A Kubernetes API over HTTPS that stores what kubectl and helm send it, and runs nothing."""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import yaml

from kvrelay.local.aws.eks.certificates import server_identity
from kvrelay.local.aws.eks.object_store import ApiFailureError, Kind, ObjectStore, not_emulated

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/[^/]+))?/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?$"
)
_IAM_TOKEN = "k8s-aws-v1."
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


class FakeKubernetes:
    """One cluster's API server, on loopback."""

    def __init__(self, folder: Path, token: str) -> None:
        self.store = ObjectStore()
        identity = server_identity(folder)
        self.ca_pem = identity.ca_pem
        store = self.store

        class Bound(_Handler):
            pass

        Bound.store, Bound.token = store, token
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        self._server.socket = identity.context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.url = f"https://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: ObjectStore
    token: str

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        url = urlparse(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        try:
            if not self._knows(self.headers.get("Authorization", "").removeprefix("Bearer ")):
                raise ApiFailureError(401, "Unauthorized", "Unauthorized")
            status, answer = self._answer(url.path.rstrip("/"), query, body)
        except ApiFailureError as failure:
            status = failure.status
            answer = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "reason": failure.reason,
                "message": failure.message,
                "code": failure.status,
            }
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _knows(self, token: str) -> bool:
        """Whether a token is this cluster's own, or a presigned call that names its caller, as IAM's tokens are.

        Every identity of the emulated account is let in: nothing here can check a signature.
        """
        if token == self.token:
            return True
        try:
            encoded = token.removeprefix(_IAM_TOKEN)
            url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
        except (binascii.Error, UnicodeDecodeError):
            return False
        query = parse_qs(urlparse(url).query)
        signed = query.get("X-Amz-SignedHeaders", [""])[0].split(";")
        return query.get("Action") == ["GetCallerIdentity"] and "x-k8s-aws-id" in signed

    def _answer(self, path: str, query: dict[str, str], body: bytes) -> tuple[int, Any]:
        discovered = self._discovery(path)
        if discovered is not None:
            return 200, discovered
        found = _PATH.match(path)
        if not found:
            raise ApiFailureError(404, "NotFound", "the server could not find the requested resource")
        # A dry run does all of it, on a copy.
        rehearsed = query.get("dryRun") and self.command != "GET"
        store = self.store.rehearsal() if rehearsed else self.store
        kind = store.kind(found["group"] or "", found["version"], found["plural"])
        if found["sub"] not in (None, "status"):
            raise not_emulated(f"{kind.plural}/{found['sub']}")
        place = (kind, found["namespace"] or "", found["name"])
        if self.command == "GET" and query.get("watch", "false") not in ("false", "0"):
            raise not_emulated("watching")
        if self.command == "GET":
            return 200, store.get(*place) if found["name"] else _list(store, kind, place[1], query)
        if self.command == "DELETE":
            return 200, _deleted(store, place, query)
        return self._changed(store, place, _parsed(body), is_status=found["sub"] == "status")

    def _changed(
        self, store: ObjectStore, place: tuple[Kind, str, str | None], given: Any, *, is_status: bool
    ) -> tuple[int, Any]:
        kind, namespace, name = place
        if self.command == "POST" and not name:
            return 201, store.create(kind, namespace, given)
        if self.command == "PATCH" and name:
            given = store.patched(kind, namespace, name, given, self.headers.get("Content-Type", ""))
        if self.command in ("PATCH", "PUT") and name:
            replace = store.replace_status if is_status else store.replace
            return 200, replace(kind, namespace, name, given)
        raise ApiFailureError(
            405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
        )

    def _discovery(self, path: str) -> Any:
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "linux/amd64"}
        if path in ("/healthz", "/livez", "/readyz"):
            return "ok"
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        kinds = self.store.kinds()
        versions = sorted({(k.group, k.version) for k in kinds})
        if path == "/apis":
            groups = sorted({group for group, _ in versions if group})
            return {
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": [_group(g, versions) for g in groups],
            }
        if path == "/openapi/v3":
            return {
                "paths": {
                    _base(group, version).lstrip("/"): {
                        "serverRelativeURL": f"/openapi/v3{_base(group, version)}?hash={len(kinds)}"
                    }
                    for group, version in versions
                }
            }
        for group, version in versions:
            base, mine = _base(group, version), [k for k in kinds if (k.group, k.version) == (group, version)]
            if path == base:
                return {
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": f"{group}/{version}" if group else version,
                    "resources": [_resource(kind) for kind in mine],
                }
            if path == f"/openapi/v3{base}":
                return _open_api(base, mine)
        return None


def _parsed(body: bytes) -> Any:
    try:
        given = yaml.safe_load(body)
    except yaml.YAMLError:
        given = None
    if not isinstance(given, dict | list):
        raise ApiFailureError(400, "BadRequest", "the body of the request is no object")
    return given


def _list(store: ObjectStore, kind: Kind, namespace: str, query: dict[str, str]) -> dict[str, Any]:
    items = [
        item
        for item in store.list(kind, namespace)
        if _labelled(item, query.get("labelSelector", "")) and _named(item, query.get("fieldSelector", ""))
    ]
    return {
        "kind": f"{kind.kind}List",
        "apiVersion": kind.group_version,
        "metadata": {"resourceVersion": "1"},
        "items": items,
    }


def _deleted(
    store: ObjectStore, place: tuple[Kind, str, str | None], query: dict[str, str]
) -> dict[str, Any]:
    """Deletes one object, or all that a query selects."""
    kind, namespace, name = place
    answer: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
    if name:
        gone = store.delete(kind, namespace, name)
        return answer | {"details": {"name": name, "kind": kind.plural, "uid": gone["metadata"]["uid"]}}
    for item in _list(store, kind, namespace, query)["items"]:
        store.delete(kind, item["metadata"].get("namespace", ""), item["metadata"]["name"])
    return answer


def _base(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _group(group: str, versions: list[tuple[str, str]]) -> dict[str, Any]:
    mine = [{"groupVersion": f"{g}/{v}", "version": v} for g, v in versions if g == group]
    return {"name": group, "versions": mine, "preferredVersion": mine[0]}


def _resource(kind: Kind) -> dict[str, Any]:
    return {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }


def _open_api(base: str, kinds: list[Kind]) -> dict[str, Any]:
    """Just enough of OpenAPI for kubectl to leave the validation of fields to the server."""
    paths = {}
    for kind in kinds:
        parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldValidation", "fieldManager")]
        called = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        space = "/namespaces/{namespace}" if kind.namespaced else ""
        paths[f"{base}{space}/{kind.plural}/{{name}}"] = {
            "patch": {"parameters": parameters, "x-kubernetes-group-version-kind": called, "responses": {}}
        }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.0"}, "paths": paths}


def _labelled(item: dict[str, Any], selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    for term in filter(None, selector.split(",")):
        key, operator, value = re.match(r"(!?[^=!]+)(==|=|!=)?(.*)", term).groups()  # type: ignore[union-attr]
        if operator is None:
            matches = (key.lstrip("!") in labels) != key.startswith("!")
        elif operator == "!=":
            matches = labels.get(key) != value
        else:
            matches = labels.get(key) == value
        if not matches:
            return False
    return True


def _named(item: dict[str, Any], selector: str) -> bool:
    metadata = item["metadata"]
    known = {"metadata.name": metadata["name"], "metadata.namespace": metadata.get("namespace", "")}
    return all(
        known.get(key, value) == value
        for key, _, value in (term.partition("=") for term in filter(None, selector.split(",")))
    )
