"""Reading what a user did from an audit log."""

import json
from pathlib import Path

from kvrelay.local.kubernetes.audit import Permission, granted, read_audit

OPERATOR = "system:serviceaccount:kuberay:operator"


def event(user: str, verb: str, decision: str, **target: str) -> str:
    return json.dumps(
        {
            "user": {"username": user},
            "verb": verb,
            "objectRef": target,
            "annotations": {"authorization.k8s.io/decision": decision},
        }
    )


def test_used_and_refused_are_told_apart(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [
        event(OPERATOR, "list", "allow", resource="pods"),
        event(OPERATOR, "update", "allow", resource="rayservices", subresource="status", apiGroup="ray.io"),
        event(OPERATOR, "create", "forbid", resource="secrets"),
        event("someone-else", "delete", "allow", resource="nodes"),
        json.dumps({"user": {"username": OPERATOR}, "verb": "get", "requestURI": "/version"}),
    ]
    log.write_text("\n".join(lines))
    audit = read_audit(log, OPERATOR)
    assert audit.used == {
        Permission("", "pods", "list"),
        Permission("ray.io", "rayservices/status", "update"),
    }
    assert audit.refused == {Permission("", "secrets", "create")}


def test_a_role_is_its_single_permissions() -> None:
    role = {
        "rules": [
            {"apiGroups": ["", "apps"], "resources": ["a", "b"], "verbs": ["get", "list"]},
            {"nonResourceURLs": ["/"], "verbs": ["get"]},
        ]
    }
    assert len(granted([role])) == 8
    assert str(Permission("ray.io", "rayservices", "get")) == "get rayservices.ray.io"
    assert str(Permission("", "pods", "list")) == "list pods"
