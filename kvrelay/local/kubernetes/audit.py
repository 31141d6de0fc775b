"""What a user was seen to do, read from the API server's audit log, beside what its roles let it do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvrelay.local.kubernetes.api import Object


@dataclass(frozen=True, order=True)
class Permission:
    """One verb on one resource (`pods`, or `pods/status`) of one API group."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


@dataclass(frozen=True)
class Audit:
    """A user's requests: what was allowed and what was refused."""

    used: frozenset[Permission]
    refused: frozenset[Permission]


def read_audit(log: Path, user: str) -> Audit:
    """The requests of `user` on resources."""
    used: set[Permission] = set()
    refused: set[Permission] = set()
    for line in log.read_text().splitlines():
        event = json.loads(line)
        target = event.get("objectRef")
        if event["user"]["username"] != user or not target:
            continue
        resource = target["resource"] + (f"/{target['subresource']}" if target.get("subresource") else "")
        permission = Permission(target.get("apiGroup", ""), resource, event["verb"])
        decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
        (refused if decision == "forbid" else used).add(permission)
    return Audit(frozenset(used), frozenset(refused))


def granted(roles: Iterable[Object]) -> frozenset[Permission]:
    """What ClusterRoles and Roles allow, one verb at a time."""
    return frozenset(
        Permission(group, resource, verb)
        for role in roles
        for rule in role.get("rules", [])
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    )
