"""A small client of the Kubernetes API: plain objects in and out, and the server's warnings kept."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

import urllib3

from kvrelay.errors import UserError

Object = dict[str, Any]
PatchKind = Literal["merge", "strategic-merge", "json"]

_MANAGER = "kvrelay"
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class ApiError(UserError):
    """The server refused: `status` is HTTP's, `reason` Kubernetes' word for it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"{reason} ({status}): {message}")


@dataclass(frozen=True)
class Endpoint:
    """Where an API server answers, whom it trusts, and who we are."""

    url: str
    ca_pem: str
    token: str


@dataclass(frozen=True)
class Resource:
    """How the server names a kind in its paths."""

    plural: str
    namespaced: bool


class Api:
    """Safe to use from several threads."""

    def __init__(self, endpoint: Endpoint, *, user_agent: str = _MANAGER) -> None:
        self.endpoint = endpoint
        self.warnings: list[str] = []
        self._headers = {"Authorization": f"Bearer {endpoint.token}", "User-Agent": user_agent}
        self._pool = urllib3.PoolManager(ca_cert_data=endpoint.ca_pem, maxsize=32, block=False, retries=False)
        self._resources: dict[str, dict[str, Resource]] = {}
        self._lock = threading.Lock()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """One call. Raises ApiError for any answer of 400 and up."""
        answer = self._pool.request(
            method,
            self.endpoint.url + path + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body),
            headers={**self._headers, "Content-Type": content_type, "Accept": "application/json"},
            timeout=urllib3.Timeout(60),
        )
        for warning in answer.headers.getlist("Warning"):
            with self._lock:
                self.warnings += _WARNING.findall(warning) or [warning]
        if answer.status >= 400:
            raise _error(answer.status, answer.data)
        try:
            content: Object = json.loads(answer.data)
        except ValueError:
            return {"text": answer.data.decode(errors="replace")}
        return content

    def ready(self) -> bool:
        """Whether the server says that it can be used."""
        try:
            self.request("GET", "/readyz")
        except (ApiError, urllib3.exceptions.HTTPError):
            return False
        return True

    def path(self, api_version: str, kind: str, namespace: str | None = None, name: str | None = None) -> str:
        """The path of a kind or of one object. Raises ApiError (404) for a kind the server does not know."""
        resource = self._resource(api_version, kind)
        parts = ["/api" if "/" not in api_version else "/apis", api_version]
        if resource.namespaced and namespace:
            parts += ["namespaces", namespace]
        return "/".join([*parts, resource.plural, *([name] if name else [])])

    def path_of(self, item: Object, *, named: bool = True) -> str:
        """The path of this object, or of its kind in its namespace."""
        metadata = item["metadata"]
        resource = self._resource(item["apiVersion"], item["kind"])
        namespace = metadata.get("namespace", "default") if resource.namespaced else None
        return self.path(item["apiVersion"], item["kind"], namespace, metadata["name"] if named else None)

    def create(self, item: Object) -> Object:
        return self.request("POST", self.path_of(item, named=False), item)

    def apply(self, item: Object, *, manager: str = _MANAGER, force: bool = True) -> Object:
        """Server-side apply."""
        query = {"fieldManager": manager, "force": str(force).lower()}
        return self.request(
            "PATCH", self.path_of(item), item, content_type="application/apply-patch+yaml", query=query
        )

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        return self.request("GET", self.path(api_version, kind, namespace, name))

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None where there is none."""
        try:
            return self.get(api_version, kind, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, labels: str | None = None
    ) -> list[Object]:
        """All objects of a kind, each with its apiVersion and kind."""
        query = {"labelSelector": labels} if labels else None
        items = self.request("GET", self.path(api_version, kind, namespace), query=query)["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def patch(
        self, path: str, change: Any, *, kind: PatchKind = "merge", query: Mapping[str, str] | None = None
    ) -> Object:
        return self.request("PATCH", path, change, content_type=f"application/{kind}-patch+json", query=query)

    def delete(
        self,
        path: str,
        *,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        uid: str | None = None,
    ) -> None:
        """Deletes; what is already gone is no error."""
        body: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if propagation:
            body["propagationPolicy"] = propagation
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self.request("DELETE", path, body)
        except ApiError as error:
            if error.status != 404 and not (uid and error.status == 409):
                raise

    def watch(self, path: str, *, resource_version: str, seconds: int = 300) -> Iterator[tuple[str, Object]]:
        """Yields (ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; object) until the server ends the watch."""
        query = {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        answer = self._pool.request(
            "GET",
            f"{self.endpoint.url}{path}?{urlencode(query)}",
            headers=self._headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=seconds + 30),
        )
        try:
            if answer.status >= 400:
                raise _error(answer.status, answer.read())
            rest = b""
            for chunk in answer.stream(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line:
                        event = json.loads(line)
                        yield event["type"], event["object"]
        finally:
            answer.close()

    def token(self, namespace: str, service_account: str, seconds: int = 86_400) -> str:
        """A token of that service account, as a pod gets it."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        account = self.path("v1", "ServiceAccount", namespace, service_account)
        token: str = self.request("POST", f"{account}/token", request)["status"]["token"]
        return token

    def _resource(self, api_version: str, kind: str) -> Resource:
        with self._lock:
            known = self._resources.get(api_version, {})
        if kind not in known:
            root = "/api/" if "/" not in api_version else "/apis/"
            known = {
                each["kind"]: Resource(each["name"], each["namespaced"])
                for each in self.request("GET", root + api_version)["resources"]
                if "/" not in each["name"]
            }
            with self._lock:
                self._resources[api_version] = known
        if kind not in known:
            raise ApiError(404, "NotFound", f"the server knows no {kind} in {api_version}")
        return known[kind]


def _error(status: int, body: bytes) -> ApiError:
    try:
        content = json.loads(body)
        return ApiError(status, content.get("reason", "Error"), content.get("message", ""))
    except (ValueError, AttributeError):
        return ApiError(status, "Error", body.decode(errors="replace")[:500])
