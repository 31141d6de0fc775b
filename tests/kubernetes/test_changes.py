"""What `kvrelay diff` says of a change of the charts, beside what Kubernetes and KubeRay do when it is applied."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.change.effect import Effect
from kvrelay.change.objects import object_changes
from kvrelay.change.resources import KUBERNETES, Resources
from kvrelay.local.kubernetes import LocalCluster, apply_all, nodes_of, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import RAY_HEAD
from kvrelay.local.kubernetes.sandbox import Program
from kvrelay.settings import Deployment
from tests.kubernetes.product import CONFIG, objects_of, running_product, service_in

PODS_OF = {"Deployment": "apps/v1", "DaemonSet": "apps/v1"}
REFERENCE = "{}"
# KubeRay looks every two seconds, and leaves no trace where it finds nothing to do.
LOOKS_SECONDS = 6
THREE_NODES = "gpu_nodes: {groups: [{count: 3}]}"

# A deployment and a serve config against the reference, and the gravest class of its objects.
APPLIED = [
    ("serving: {image: 'example.com/ray:other'}", CONFIG, Effect.NEW_RAY_CLUSTER),
    ("serving: {security_profile: ipc-lock}", CONFIG, Effect.NEW_RAY_CLUSTER),
    ("serving: {hugepages_mib: 1024}", CONFIG, Effect.NEW_RAY_CLUSTER),
    ("serving: {weights: {source: s3, bucket: models, prefix: qwen}}", CONFIG, Effect.NEW_RAY_CLUSTER),
    (
        "serving: {weights: {source: hugging-face, token_kubernetes_secret: token}}",
        CONFIG,
        Effect.NEW_RAY_CLUSTER,
    ),
    ("serving: {operator_feature_gates: {RayJobDeletionPolicy: false}}", CONFIG, Effect.ROLLING),
    (THREE_NODES, "qwen3-8b-2p1d", Effect.IN_PLACE),
    ("tags: {team: ml}", CONFIG, Effect.NOTHING),
]


def manifests(edit: str, config: str) -> list[Object]:
    """The objects; KubeRay acts on a change of its cluster only where it may make another one."""
    objects = objects_of(Deployment.model_validate(yaml.safe_load(edit)), config)
    for item in objects:
        if item["kind"] == "RayService":
            item["spec"].pop("upgradeStrategy")
            item["spec"]["rayClusterDeletionDelaySeconds"] = 1
    return objects


def as_resources(objects: list[Object]) -> Resources:
    return {"Manifests": {"Type": KUBERNETES, "Properties": {"Manifest": json.dumps(objects)}}}


class Applied:
    """The product in a cluster, and what of it runs now."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.api = cluster.api
        self.service = service_in(cluster)

    def apply(self, objects: list[Object]) -> None:
        """Applies it and returns once all controllers have acted on it."""
        apply_all(self.api, objects)
        time.sleep(LOOKS_SECONDS)
        wait_for("every controller has seen it", lambda: all(map(self._settled, objects)), 120, 0.5)

    def _settled(self, item: Object) -> bool:
        if item["kind"] not in {*PODS_OF, "RayService"}:
            return True
        metadata = item["metadata"]
        now = self.api.get(item["apiVersion"], item["kind"], metadata["name"], metadata["namespace"])
        status = now.get("status", {})
        if item["kind"] == "RayService":
            pods = self.service.pods(cluster=self.ray_cluster())
            return len(pods) >= 3 and all(pod["status"].get("phase") == "Running" for pod in pods)
        if status.get("observedGeneration") != now["metadata"]["generation"]:
            return False
        if item["kind"] == "Deployment":
            wanted = now["spec"]["replicas"]
            return bool(status.get("updatedReplicas") == status.get("readyReplicas") == wanted)
        return bool(status.get("updatedNumberScheduled", 0) == status["desiredNumberScheduled"])

    def ray_cluster(self) -> str:
        """The Ray cluster that KubeRay wants: none here ever serves, so it stays pending."""
        return self.service.state().pending

    def running(self, objects: list[Object]) -> dict[str, Any]:
        """Of each object that has pods, which they are: a Ray cluster's name, or the pods' own."""
        found: dict[str, Any] = {}
        for item in objects:
            metadata = item["metadata"]
            name = f"{item['kind']}/{metadata.get('namespace')}/{metadata['name']}"
            if item["kind"] == "RayService":
                found[name] = self.ray_cluster()
            elif item["kind"] in PODS_OF:
                labels = ",".join(f"{k}={v}" for k, v in item["spec"]["selector"]["matchLabels"].items())
                pods = self.api.list("v1", "Pod", metadata["namespace"], labels=labels)
                found[name] = {
                    pod["metadata"]["uid"] for pod in pods if not pod["metadata"].get("deletionTimestamp")
                }
        return found


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Applied]:
    """The product, with a node for each worker of every deployment here. Heads answer KubeRay, and serve nothing."""

    def command(container: Object, address: str) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("idle_dashboard.py")), address]

    def is_head(pod: Object) -> bool:
        return bool(pod["metadata"].get("labels", {}).get("ray.io/node-type") == "head")

    roomy = Deployment.model_validate(yaml.safe_load(THREE_NODES))
    with running_product(
        tmp_path_factory.mktemp("changes"),
        Deployment(),
        nodes=nodes_of(roomy, plugged=True),
        programs=[Program(RAY_HEAD, is_head, command, {})],
    ) as cluster:
        yield Applied(cluster)


@pytest.mark.parametrize(("edit", "config", "effect"), APPLIED, ids=[edit for edit, _, _ in APPLIED])
def test_what_runs_is_replaced_where_it_was_said_and_stays_where_not(
    deployed: Applied, edit: str, config: str, effect: Effect
) -> None:
    reference, other = manifests(REFERENCE, CONFIG), manifests(edit, config)
    deployed.apply(reference)
    for base, head in ((reference, other), (other, reference)):
        said = {
            each.subject: each.effect
            for each in object_changes("serving", as_resources(base), as_resources(head))
        }
        assert max(said.values(), default=Effect.NOTHING) == effect
        before = deployed.running(head)
        deployed.apply(head)
        after = deployed.running(head)
        replaced = {name for name in after if before[name] != after[name]}
        assert replaced == {name for name, each in said.items() if each >= Effect.ROLLING}
