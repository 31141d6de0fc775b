"""Kubernetes objects kept in memory: kinds, names, and what create, apply and delete do to them."""

from __future__ import annotations

import copy
import json
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jsonpatch
import jsonpointer

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class ApiFailureError(Exception):
    """A request that Kubernetes refuses: HTTP status, reason and message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def not_emulated(what: str) -> ApiFailureError:
    """The refusal of what would need a schema or a stream, in place of an answer that would be wrong."""
    return ApiFailureError(
        501, "NotImplemented", f"{what} is not emulated; `make tools` builds a real API server that does it"
    )


@dataclass(frozen=True)
class Kind:
    """One kind of object, and where the API serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    has_status: bool = True
    """Whether status is a subresource, which only requests to it change."""

    @property
    def group_version(self) -> str:
        """As objects say it in apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As errors name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def _kinds() -> list[Kind]:
    table = {
        "/v1": "ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController "
        "ResourceQuota Secret Service ServiceAccount | Namespace Node PersistentVolume",
        "admissionregistration.k8s.io/v1": "| MutatingWebhookConfiguration ValidatingWebhookConfiguration "
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
        "apiextensions.k8s.io/v1": "| CustomResourceDefinition",
        "apiregistration.k8s.io/v1": "| APIService",
        "apps/v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
        "autoscaling/v2": "HorizontalPodAutoscaler",
        "batch/v1": "CronJob Job",
        "coordination.k8s.io/v1": "Lease",
        "discovery.k8s.io/v1": "EndpointSlice",
        "networking.k8s.io/v1": "Ingress NetworkPolicy | IngressClass",
        "node.k8s.io/v1": "| RuntimeClass",
        "policy/v1": "PodDisruptionBudget",
        "rbac.authorization.k8s.io/v1": "Role RoleBinding | ClusterRole ClusterRoleBinding",
        "scheduling.k8s.io/v1": "| PriorityClass",
        "storage.k8s.io/v1": "| CSIDriver StorageClass VolumeAttachment",
    }
    kinds = []
    for group_version, names in table.items():
        group, version = group_version.split("/")
        spaced, _, whole = names.partition("|")
        kinds += [Kind(group, version, n, _plural(n), True) for n in spaced.split()]
        kinds += [Kind(group, version, n, _plural(n), False) for n in whole.split()]
    return kinds


def _plural(kind: str) -> str:
    lower = kind.lower()
    if lower == "endpoints":
        return lower
    if lower.endswith("y"):
        return lower[:-1] + "ies"
    return lower + ("es" if lower.endswith(("s", "x")) else "s")


class ObjectStore:
    """The objects of one cluster."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str], dict[tuple[str, str], dict[str, Any]]] = {}
        self._lock = threading.RLock()
        self._version = 0
        for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
            self.create(self._kind_named("Namespace"), "", {"metadata": {"name": name}})

    def rehearsal(self) -> ObjectStore:
        """A copy, for what a request would do."""
        with self._lock:
            copied = ObjectStore()
            copied._objects, copied._version = copy.deepcopy(self._objects), self._version
            return copied

    def kinds(self) -> list[Kind]:
        """Kinds that come with Kubernetes, and those that applied CustomResourceDefinitions add."""
        found = _kinds()
        for crd in self._objects.get(("apiextensions.k8s.io", "customresourcedefinitions"), {}).values():
            spec = crd["spec"]
            found += [
                Kind(
                    spec["group"],
                    version["name"],
                    spec["names"]["kind"],
                    spec["names"]["plural"],
                    spec["scope"] == "Namespaced",
                    "status" in version.get("subresources", {}),
                )
                for version in spec["versions"]
                if version.get("served")
            ]
        return found

    def kind(self, group: str, version: str, plural: str) -> Kind:
        """The kind served at a path."""
        for kind in self.kinds():
            if (kind.group, kind.version, kind.plural) == (group, version, plural):
                return kind
        raise ApiFailureError(404, "NotFound", "the server could not find the requested resource")

    def _kind_named(self, name: str) -> Kind:
        return next(kind for kind in _kinds() if kind.kind == name)

    def all(self) -> list[dict[str, Any]]:
        """Every object, those a fresh cluster has included."""
        with self._lock:
            return [copy.deepcopy(o) for objects in self._objects.values() for o in objects.values()]

    def list(self, kind: Kind, namespace: str) -> list[dict[str, Any]]:
        """Objects of a kind; an empty namespace means all."""
        with self._lock:
            objects = self._of(kind)
            return [copy.deepcopy(o) for (space, _), o in objects.items() if namespace in ("", space)]

    def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """One object."""
        found = self._of(kind).get((namespace, name))
        if found is None:
            raise ApiFailureError(404, "NotFound", f'{kind.resource} "{name}" not found')
        return copy.deepcopy(found)

    def create(self, kind: Kind, namespace: str, given: dict[str, Any]) -> dict[str, Any]:
        """Adds an object, into a namespace that exists."""
        metadata = given.setdefault("metadata", {})
        name = metadata.get("name") or f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}"
        if not name:
            raise ApiFailureError(
                422, "Invalid", "metadata.name: Required value: name or generateName is required"
            )
        with self._lock:
            self._require_namespace(kind, namespace)
            if (namespace, name) in self._of(kind):
                raise ApiFailureError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists')
            metadata |= {
                "name": name,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            if namespace:
                metadata["namespace"] = namespace
            if kind.has_status:
                given.pop("status", None)
            if kind.kind == "Namespace":
                given["status"] = {"phase": "Active"}
            if kind.kind == "CustomResourceDefinition":
                given["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
            return self._put(kind, namespace, name, given)

    def replace(self, kind: Kind, namespace: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Puts an object in an existing one's place; its status stays."""
        with self._lock:
            old = self.get(kind, namespace, name)
            version = given.get("metadata", {}).get("resourceVersion")
            if version not in (None, old["metadata"]["resourceVersion"]):
                message = (
                    f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified'
                )
                raise ApiFailureError(409, "Conflict", message)
            kept = {
                key: old["metadata"][key]
                for key in ("name", "uid", "creationTimestamp", "namespace")
                if key in old["metadata"]
            }
            given["metadata"] = {**given.get("metadata", {}), **kept}
            if kind.has_status:
                given.pop("status", None)
                if "status" in old:
                    given["status"] = old["status"]
            return self._put(kind, namespace, name, given)

    def replace_status(self, kind: Kind, namespace: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """Puts the status of `given` in the place of an object's, and nothing else of it."""
        with self._lock:
            old = self.get(kind, namespace, name)
            if not kind.has_status:
                raise ApiFailureError(404, "NotFound", "the server could not find the requested resource")
            old.pop("status", None)
            return self._put(kind, namespace, name, old | {k: v for k, v in given.items() if k == "status"})

    def patched(self, kind: Kind, namespace: str, name: str, patch: Any, media: str) -> dict[str, Any]:
        """What a JSON, merge or strategic patch makes of an object; nothing is kept."""
        if media.startswith("application/apply-patch"):
            raise not_emulated("server-side apply")
        old = self.get(kind, namespace, name)
        if media.startswith("application/json-patch"):
            return _json_patched(old, patch)
        applied = patch.get("metadata", {}).get("annotations", {}).get(LAST_APPLIED)
        if applied:
            # What `kubectl apply` sends for lists depends on the schema; the whole of what it wants is here.
            wanted: dict[str, Any] = json.loads(applied)
            wanted.setdefault("metadata", {}).setdefault("annotations", {})[LAST_APPLIED] = applied
            return wanted
        if media.startswith("application/strategic-merge-patch") and any(_needs_schema(patch)):
            raise not_emulated("a strategic merge patch of a list")
        merged: dict[str, Any] = _merged(old, patch)
        return merged

    def delete(self, kind: Kind, namespace: str, name: str) -> dict[str, Any]:
        """Removes an object; a namespace goes with all that is in it, a definition with all of its kind."""
        with self._lock:
            gone = self.get(kind, namespace, name)
            del self._of(kind)[namespace, name]
            if kind.kind == "Namespace":
                for objects in self._objects.values():
                    for key in [key for key in objects if key[0] == name]:
                        del objects[key]
            if kind.kind == "CustomResourceDefinition":
                self._objects.pop((gone["spec"]["group"], gone["spec"]["names"]["plural"]), None)
            return gone

    def _of(self, kind: Kind) -> dict[tuple[str, str], dict[str, Any]]:
        return self._objects.setdefault((kind.group, kind.plural), {})

    def _put(self, kind: Kind, namespace: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        given = {"apiVersion": kind.group_version, "kind": kind.kind, **given}
        given["metadata"]["resourceVersion"] = str(self._version)
        self._of(kind)[namespace, name] = given
        return copy.deepcopy(given)

    def _require_namespace(self, kind: Kind, namespace: str) -> None:
        if kind.namespaced and ("", namespace) not in self._of(self._kind_named("Namespace")):
            raise ApiFailureError(404, "NotFound", f'namespaces "{namespace}" not found')


def _needs_schema(patch: Any) -> Iterator[bool]:
    """Whether parts of a strategic patch mean what only the kind's schema tells: lists of mappings, directives."""
    if isinstance(patch, dict):
        for key, value in patch.items():
            yield key.startswith("$")
            yield from _needs_schema(value)
    elif isinstance(patch, list):
        yield any(isinstance(each, dict) for each in patch)


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _json_patched(old: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """RFC 6902."""
    try:
        result: dict[str, Any] = jsonpatch.apply_patch(old, operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        message = f"the server rejected our request due to an error in our request: {error}"
        raise ApiFailureError(422, "Invalid", message) from error
    return result
