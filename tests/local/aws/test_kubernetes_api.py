"""The API of an emulated cluster: what it does as Kubernetes does, and what it refuses to guess."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from kvrelay.local.aws.eks.kubernetes_api import FakeKubernetes
from kvrelay.local.aws.eks.object_store import LAST_APPLIED

SPACE = "/api/v1/namespaces/default"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    server = FakeKubernetes(tmp_path_factory.mktemp("identity"), "token")
    headers = {"Authorization": "Bearer token"}
    context = ssl.create_default_context(cadata=server.ca_pem)
    with httpx.Client(base_url=server.url, headers=headers, verify=context) as client:
        yield client
    server.stop()


def pod(api: httpx.Client, name: str) -> str:
    """A pod in the namespace default; returns its path."""
    made = api.post(
        f"{SPACE}/pods", json={"metadata": {"name": name}, "spec": {"nodeName": "a", "containers": []}}
    )
    assert made.status_code == 201
    return f"{SPACE}/pods/{name}"


def patch(api: httpx.Client, path: str, media: str, body: Any) -> httpx.Response:
    return api.patch(path, content=json.dumps(body), headers={"Content-Type": media})


def test_a_put_of_the_status_changes_the_status_alone(api: httpx.Client) -> None:
    path = pod(api, "put-status")
    api.put(
        f"{path}/status",
        json={"metadata": {"labels": {"lost": "yes"}}, "spec": {}, "status": {"phase": "Running"}},
    )
    found = api.get(path).json()
    assert found["status"] == {"phase": "Running"}
    assert found["spec"]["nodeName"] == "a"
    assert "labels" not in found["metadata"]


def test_a_patch_of_the_status_changes_the_status_alone(api: httpx.Client) -> None:
    path = pod(api, "patch-status")
    patch(api, f"{path}/status", MERGE_PATCH, {"spec": {"nodeName": "b"}, "status": {"phase": "Failed"}})
    found = api.get(f"{path}/status").json()
    assert found["status"] == {"phase": "Failed"}
    assert found["spec"]["nodeName"] == "a"


def test_a_put_of_the_object_leaves_its_status(api: httpx.Client) -> None:
    path = pod(api, "put-object")
    patch(api, f"{path}/status", MERGE_PATCH, {"status": {"phase": "Running"}})
    api.put(path, json={"metadata": {}, "spec": {"nodeName": "b"}, "status": {"phase": "Gone"}})
    found = api.get(path).json()
    assert found["status"] == {"phase": "Running"}
    assert found["spec"] == {"nodeName": "b"}


@pytest.mark.parametrize("has_status", [True, False])
def test_a_custom_kind_has_a_status_of_its_own_when_its_definition_says_so(
    api: httpx.Client, has_status: bool
) -> None:
    plural = "kept" if has_status else "plain"
    version = {"name": "v1", "served": True, "subresources": {"status": {}} if has_status else {}}
    spec = {"group": "x.io", "scope": "Cluster", "names": {"kind": plural.title(), "plural": plural}}
    crd = {"metadata": {"name": f"{plural}.x.io"}, "spec": {**spec, "versions": [version]}}
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=crd)

    made = api.post(f"/apis/x.io/v1/{plural}", json={"metadata": {"name": "one"}, "status": {"a": 1}}).json()
    assert ("status" in made) is not has_status
    answer = api.put(f"/apis/x.io/v1/{plural}/one/status", json={"status": {"b": 2}})
    assert answer.status_code == (200 if has_status else 404)


def test_an_object_that_was_changed_meanwhile_is_not_overwritten(api: httpx.Client) -> None:
    path = pod(api, "stale")
    read = api.get(path).json()
    patch(api, path, MERGE_PATCH, {"metadata": {"labels": {"a": "b"}}})
    assert api.put(path, json=read).status_code == 409


def test_a_json_patch_tests_copies_and_moves(api: httpx.Client) -> None:
    path = pod(api, "json-patch")
    done = patch(
        api,
        path,
        JSON_PATCH,
        [
            {"op": "test", "path": "/spec/nodeName", "value": "a"},
            {"op": "copy", "from": "/spec/nodeName", "path": "/spec/hostname"},
            {"op": "move", "from": "/spec/nodeName", "path": "/spec/subdomain"},
            {"op": "add", "path": "/spec/containers/-", "value": {"name": "c"}},
        ],
    )
    assert done.json()["spec"] == {"hostname": "a", "subdomain": "a", "containers": [{"name": "c"}]}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/spec/nodeName", "value": "other"},
        {"op": "remove", "path": "/spec/nothing"},
        {"op": "replace", "path": "/no/such/place", "value": 1},
        {"op": "shuffle", "path": "/spec"},
    ],
    ids=["test-fails", "remove-nothing", "no-such-place", "no-such-operation"],
)
def test_a_json_patch_that_does_not_apply_changes_nothing(
    api: httpx.Client, operation: dict[str, Any]
) -> None:
    path = pod(api, f"refused-{operation['op']}")
    before = api.get(path).json()
    answer = patch(api, path, JSON_PATCH, [{"op": "add", "path": "/spec/x", "value": 1}, operation])
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")
    assert api.get(path).json() == before


def test_a_merge_patch_takes_away_what_is_null_and_merges_below(api: httpx.Client) -> None:
    path = pod(api, "merge")
    patch(
        api,
        path,
        MERGE_PATCH,
        {"spec": {"nodeName": None, "securityContext": {"runAsUser": 1, "fsGroup": None}}},
    )
    assert api.get(path).json()["spec"] == {"containers": [], "securityContext": {"runAsUser": 1}}


def test_what_kubectl_applied_replaces_what_it_applied_before(api: httpx.Client) -> None:
    path = pod(api, "applied")
    patch(api, f"{path}/status", MERGE_PATCH, {"status": {"phase": "Running"}})
    wanted = json.dumps({"metadata": {"name": "applied"}, "spec": {"containers": [{"name": "c"}]}})
    body = {"metadata": {"annotations": {LAST_APPLIED: wanted}}, "spec": {"containers": [{"name": "c"}]}}
    found = patch(api, path, STRATEGIC_PATCH, body).json()
    assert found["spec"] == {"containers": [{"name": "c"}]}
    assert found["status"] == {"phase": "Running"}


@pytest.mark.parametrize(
    ("what", "media", "body"),
    [
        ("server-side apply", APPLY_PATCH, {"metadata": {"name": "guess"}}),
        ("a strategic merge patch of a list", STRATEGIC_PATCH, {"spec": {"containers": [{"name": "c"}]}}),
        ("a strategic merge patch of a list", STRATEGIC_PATCH, {"spec": {"$patch": "replace"}}),
    ],
    ids=["apply", "strategic-list", "strategic-directive"],
)
def test_patches_that_need_the_schema_are_refused_in_one_line(
    api: httpx.Client, what: str, media: str, body: dict[str, Any]
) -> None:
    path = f"{SPACE}/pods/guess"
    if api.get(path).status_code == 404:
        pod(api, "guess")
    answer = patch(api, path, media, body)
    assert answer.status_code == 501
    assert answer.json()["message"].startswith(f"{what} is not emulated; ")
    assert "\n" not in answer.json()["message"]


def test_watching_is_refused_and_not_answered_with_a_list(api: httpx.Client) -> None:
    answer = api.get(f"{SPACE}/pods", params={"watch": "true"})
    assert (answer.status_code, answer.json()["reason"]) == (501, "NotImplemented")
    assert api.get(f"{SPACE}/pods", params={"watch": "false"}).json()["kind"] == "PodList"


def test_other_subresources_are_refused(api: httpx.Client) -> None:
    path = pod(api, "sub")
    assert api.get(f"{path}/log").status_code == 501
    assert api.delete(path).status_code == 200


def test_a_dry_run_answers_as_the_request_would_and_keeps_nothing(api: httpx.Client) -> None:
    dry = {"dryRun": "All"}
    body = {"metadata": {"name": "dry"}}
    missing = api.post("/api/v1/namespaces/nowhere/configmaps", params=dry, json=body)
    assert (missing.status_code, missing.json()["message"]) == (404, 'namespaces "nowhere" not found')

    made = api.post(f"{SPACE}/configmaps", params=dry, json=body)
    assert made.status_code == 201
    assert made.json()["metadata"]["uid"]
    assert api.get(f"{SPACE}/configmaps/dry").status_code == 404

    path = pod(api, "dry")
    assert api.post(f"{SPACE}/pods", params=dry, json=body).status_code == 409
    changed = api.patch(path, params=dry, json={"spec": {"x": 1}}, headers={"Content-Type": MERGE_PATCH})
    assert changed.json()["spec"]["x"] == 1
    assert api.delete(path, params=dry).status_code == 200
    assert "x" not in api.get(path).json()["spec"]


def test_a_body_that_is_no_object_is_a_bad_request(api: httpx.Client) -> None:
    for body in ("", "text", "{", "a: [b"):
        assert api.post(f"{SPACE}/configmaps", content=body).status_code == 400


def test_a_wrong_token_is_unauthorized(api: httpx.Client) -> None:
    assert api.get("/api/v1/nodes", headers={"Authorization": "Bearer other"}).status_code == 401
