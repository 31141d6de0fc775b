"""A whole life of each of Ray's kinds, and the operator's rights: all that they grant is used, no more is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kvrelay.data import versions
from kvrelay.local.kubernetes import Api, LocalCluster, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.audit import Audit, Permission, granted, read_audit
from kvrelay.local.kubernetes.programs import RAY_HEAD
from kvrelay.local.kubernetes.tools import KUBERAY
from kvrelay.settings import Deployment
from tests.kubernetes.product import (
    OPERATOR,
    OPERATOR_NAMESPACE,
    OPERATOR_USER,
    SIMULATED,
    objects_of,
    serving_service,
)
from tests.kubernetes.ray_service import OTHER_IMAGE, Service, State
from tests.serve_app.examples import DEPLOYMENTS

RBAC = "rbac.authorization.k8s.io/v1"
# What the deployed operator does and the one built here, which is older, does not: so far as its code says.
NEWER_ALONE = {
    Permission("", "persistentvolumeclaims", "list"),
    Permission("", "persistentvolumeclaims", "watch"),
    Permission("", "services", "delete"),
    Permission("events.k8s.io", "events", "create"),
    Permission("events.k8s.io", "events", "patch"),
}
POD: Object = {
    "metadata": {"labels": SIMULATED},
    "spec": {
        "nodeSelector": {"role": "system"},
        "containers": [{"name": "ray-head", "image": "example.com/ray:2.58.0"}],
    },
}
RAY: Object = {"rayVersion": "2.58.0", "headGroupSpec": {"rayStartParams": {}, "template": POD}}


def manifest(kind: str, name: str, namespace: str, spec: Object) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def operator_rules() -> list[Object]:
    """The ClusterRole and the Role that the product grants."""
    objects = objects_of(DEPLOYMENTS["qwen3-8b"])
    return [item for item in objects if item["kind"] in ("ClusterRole", "Role")]


@dataclass
class Life:
    """What was seen of a RayService until it was deleted, and what the operator did meanwhile."""

    audit: Audit
    before: State
    after: State
    """Once its Ray cluster was deleted and another serves."""
    images: set[str]
    """Of all pods then."""
    left: list[str]
    """Kinds that were left once it was gone."""


def serve_and_scale(service: Service) -> None:
    """A head that serves too, another worker and one less, another group of them."""
    service.edit(lambda spec: spec.update(excludeHeadPodFromServeSvc=False))
    wait_for("the head serves", lambda: head_serves(service), 60)
    service.edit(lambda spec: spec.update(excludeHeadPodFromServeSvc=True))
    service.scale("decode", 2)
    wait_for("two decode pods", lambda: len(service.pods("decode")) == 2, 60)
    service.scale("decode", 1)
    wait_for("one decode pod", lambda: len(service.pods("decode")) == 1, 60)
    original = service.read()["spec"]["rayClusterConfig"]
    service.edit(add_a_group)
    wait_for("another group", lambda: len(service.ray_cluster()["spec"]["workerGroupSpecs"]) == 3, 60)
    service.edit(lambda spec: spec.update(rayClusterConfig=original))


def head_serves(service: Service) -> bool:
    labels: dict[str, str] = service.head()["metadata"]["labels"]
    return labels.get("ray.io/serve") == "true"


def change_image(service: Service, before: State) -> State:
    """How an image is changed without room for a second cluster: the old one is deleted."""
    service.set_image(OTHER_IMAGE)
    service.delete_ray_cluster(before.active)
    after = service.wait_until(
        "another cluster serves", lambda state: state.done and state.active != before.active
    )
    wait_for("the old cluster's pods gone", lambda: not service.pods(cluster=before.active), 90)
    return after


def add_a_group(spec: Object) -> None:
    groups = spec["rayClusterConfig"]["workerGroupSpecs"]
    groups.append({**groups[-1], "groupName": "more", "replicas": 0, "minReplicas": 0})


def park_a_ray_cluster(api: Api, namespace: str) -> None:
    """A Ray cluster of its own, suspended: the operator deletes its pods together."""
    item = manifest("RayCluster", "parked", namespace, RAY)
    api.create(item)
    path = api.path_of(item)

    def state() -> str:
        return str(api.request("GET", path).get("status", {}).get("state"))

    wait_for("the Ray cluster ready", lambda: state() == "ready", 60)
    api.patch(path, {"spec": {"suspend": True}})
    wait_for("the Ray cluster suspended", lambda: state() == "suspended", 60)
    api.delete(path)


def ray_job(name: str, namespace: str, **spec: Any) -> Object:
    submitter = {"spec": {**POD["spec"], "restartPolicy": "Never"}}
    shared = {"entrypoint": "true", "rayClusterSpec": RAY, "submitterPodTemplate": submitter}
    return manifest("RayJob", name, namespace, {**shared, **spec})


def suspend_a_ray_job(api: Api, namespace: str) -> None:
    """A job that is suspended once it is submitted: its submitter and its Ray cluster go."""
    item = ray_job("suspended", namespace, shutdownAfterJobFinishes=True)
    api.create(item)
    path = api.path_of(item)
    wait_for("the submitter", lambda: api.find("batch/v1", "Job", "suspended", namespace), 90)
    api.patch(path, {"spec": {"suspend": True}})

    def status() -> str:
        return str(api.request("GET", path).get("status", {}).get("jobDeploymentStatus"))

    wait_for("the job suspended", lambda: status() == "Suspended", 60)
    assert api.find("batch/v1", "Job", "suspended", namespace) is None
    api.delete(path)


def let_a_ray_job_delete_itself(api: Api, namespace: str) -> None:
    """A job whose time is up, and that says itself what becomes of it then."""
    condition = {"jobDeploymentStatus": "Failed", "ttlSeconds": 0}
    rules = [{"condition": condition, "policy": "DeleteSelf"}]
    item = ray_job("late", namespace, activeDeadlineSeconds=1, deletionStrategy={"deletionRules": rules})
    api.create(item)
    wait_for("the job gone", lambda: api.find("ray.io/v1", "RayJob", "late", namespace) is None, 90)


@pytest.fixture(scope="module")
def life(serving: LocalCluster) -> Life:
    """A life of each kind that the operator serves. Other tests' requests are in the audit log too."""
    api, service = serving.api, serving_service(serving)
    before = service.state()
    serve_and_scale(service)
    after = change_image(service, before)
    images = service.images()
    park_a_ray_cluster(api, service.namespace)
    suspend_a_ray_job(api, service.namespace)
    let_a_ray_job_delete_itself(api, service.namespace)
    service.delete()
    wait_for("all of it gone", lambda: not service.exists() and not service.pods(), 120)
    kinds = {"ray.io/v1": ("RayCluster", "RayJob"), "v1": ("Service",), "batch/v1": ("Job",)}
    left = [
        kind for group, names in kinds.items() for kind in names if api.list(group, kind, service.namespace)
    ]
    return Life(read_audit(serving.plane.audit_log, OPERATOR_USER), before, after, images, left)


def test_a_deleted_ray_cluster_comes_back_with_the_changed_image(life: Life) -> None:
    assert life.after.active != life.before.active
    assert life.images == {OTHER_IMAGE}


def test_a_deleted_service_takes_everything_of_it(serving: LocalCluster, life: Life) -> None:
    assert life.left == []
    wait_for("head gone", lambda: not serving.kubelet.programs.running(RAY_HEAD), 30)


def test_the_operator_was_refused_nothing(life: Life) -> None:
    assert sorted(map(str, life.audit.refused)) == []


def test_the_roles_grant_just_what_the_operator_did(life: Life) -> None:
    newer = NEWER_ALONE if KUBERAY.version != f"v{versions().kuberay}" else set()
    rights = granted(operator_rules())
    assert sorted(map(str, rights - life.audit.used - newer)) == [], "granted, and not needed"
    assert sorted(map(str, life.audit.used - rights)) == [], "needed, and not granted"


def allows(api: Api, permission: Permission, namespace: str) -> bool:
    """What the API server answers to: may the operator do that?"""
    resource, _, subresource = permission.resource.partition("/")
    attributes = {
        "group": permission.group,
        "resource": resource,
        "subresource": subresource,
        "verb": permission.verb,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": OPERATOR_USER, "resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return bool(api.request("POST", path, review)["status"]["allowed"])


def test_each_verb_is_granted_once_so_that_removing_it_takes_it_away(serving: LocalCluster) -> None:
    for role in operator_rules():
        for permission in sorted(granted([role])):
            lose(serving.api, role, permission)
        serving.api.patch(serving.api.path_of(role), {"rules": role["rules"]})


def lose(api: Api, role: Object, permission: Permission) -> None:
    """Returns once the API server no longer allows it: no other role does."""
    namespace = role["metadata"].get("namespace", Deployment().serving.namespace)
    assert allows(api, permission, namespace), permission
    api.patch(api.path_of(role), {"rules": list(rules_without(role, permission))})
    wait_for(f"no right to {permission}", lambda: not allows(api, permission, namespace), 20, 0.05)


def rules_without(role: Object, lost: Permission) -> Iterator[Object]:
    """A role's rules but for one permission."""
    for each in sorted(granted([role]) - {lost}):
        yield {"apiGroups": [each.group], "resources": [each.resource], "verbs": [each.verb]}


def test_without_a_verb_that_it_needs_no_pod_comes_up(serving: LocalCluster) -> None:
    api, (role, _) = serving.api, operator_rules()
    namespace = Deployment().serving.namespace
    before = read_audit(serving.plane.audit_log, OPERATOR_USER).refused
    api.patch(api.path_of(role), {"rules": list(rules_without(role, Permission("", "services", "create")))})
    try:
        api.create(manifest("RayCluster", "refused", namespace, RAY))

        def refused() -> set[Permission]:
            return set(read_audit(serving.plane.audit_log, OPERATOR_USER).refused - before)

        wait_for("a refusal", refused, 30)
        assert refused() == {Permission("", "services", "create")}
        assert not api.list("v1", "Pod", namespace, labels="ray.io/cluster=refused")
    finally:
        api.patch(api.path_of(role), {"rules": role["rules"]})
        api.delete(api.path("ray.io/v1", "RayCluster", namespace, "refused"))


def test_no_right_reaches_beyond_the_served_namespace(serving: LocalCluster) -> None:
    bindings = serving.api.list(RBAC, "ClusterRoleBinding")
    bound = [
        binding["metadata"]["name"]
        for binding in bindings
        for subject in binding.get("subjects", [])
        if subject["name"] == OPERATOR and subject.get("namespace") == OPERATOR_NAMESPACE
    ]
    assert bound == []
