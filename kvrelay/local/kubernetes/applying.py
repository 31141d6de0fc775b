"""Applies many objects in an order that works, and says what the server warned of."""

from __future__ import annotations

from collections.abc import Iterable

from kvrelay.local.kubernetes.api import Api, Object
from kvrelay.local.kubernetes.waiting import wait_for

_FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "ResourceQuota", "ServiceAccount")
_CRD_API = "apiextensions.k8s.io/v1"


def apply_all(api: Api, objects: Iterable[Object]) -> list[str]:
    """Server-side applies all: definitions and namespaces first. Returns the server's warnings to these calls."""
    before = len(api.warnings)
    ordered = sorted(
        objects, key=lambda item: _FIRST.index(item["kind"]) if item["kind"] in _FIRST else len(_FIRST)
    )
    waiting = [item["metadata"]["name"] for item in ordered if item["kind"] == "CustomResourceDefinition"]
    for item in ordered:
        if item["kind"] != "CustomResourceDefinition":
            for name in waiting:
                wait_until_served(api, name)
            waiting = []
        api.apply(item)
    return api.warnings[before:]


def wait_until_served(api: Api, definition: str) -> None:
    """Returns once the server serves the kind of that CustomResourceDefinition. Raises TimeoutError."""

    def served() -> bool:
        status = api.get(_CRD_API, "CustomResourceDefinition", definition).get("status", {})
        # null, not absent, until the server's own controllers have seen it.
        states = {each["type"]: each["status"] for each in status.get("conditions") or ()}
        if "False" in (states.get("NamesAccepted"), states.get("Established")):
            return False
        return states.get("Established") == "True" and _is_discovered(api, definition)

    wait_for(f"definition {definition}", served)


def _is_discovered(api: Api, definition: str) -> bool:
    plural, _, group = definition.partition(".")
    spec = api.get(_CRD_API, "CustomResourceDefinition", definition)["spec"]
    version = next(each["name"] for each in spec["versions"] if each["served"])
    groups = {each["name"] for each in api.request("GET", "/apis")["groups"]}
    if group not in groups:
        return False
    found = api.request("GET", f"/apis/{group}/{version}")["resources"]
    return any(each["name"] == plural for each in found)
