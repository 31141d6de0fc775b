"""What a change to a Kubernetes object means: nothing restarts, pods roll, a new Ray cluster, or a loss."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvrelay.change.differences import differences
from kvrelay.change.effect import Change, Effect
from kvrelay.change.resources import KUBERNETES, Resources
from kvrelay.errors import UserError

# Deleting one ends the service, or takes with it what nothing brings back.
_LOST = {
    "CustomResourceDefinition",
    "Ingress",
    "Namespace",
    "PersistentVolumeClaim",
    "RayService",
    "Secret",
    "Service",
}
_PODS = {"DaemonSet", "Deployment", "StatefulSet"}
_PRUNE = "aws.cdk.eks/prune-"
# KubeRay leaves these out when it asks whether a cluster changed (FACTS: replica counts, workersToDelete, tolerations).
_SCALE = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")


def object_changes(stack: str, before: Resources, after: Resources) -> Iterator[Change]:
    """One change for each Kubernetes object that is added, removed or differs."""
    old, new = _objects(before), _objects(after)
    for name in dict.fromkeys((*old, *new)):
        kind = name.partition("/")[0]
        if name not in old:
            effect = Effect.ROLLING if kind in _PODS else Effect.IN_PLACE
            yield Change(stack, name, kind, effect, "is added")
        elif name not in new:
            effect = Effect.LOSS if kind in _LOST else Effect.ROLLING if kind in _PODS else Effect.IN_PLACE
            yield Change(stack, name, kind, effect, "is deleted")
        elif paths := list(differences(old[name], new[name])):
            effect, what = _meaning(kind, old[name], new[name])
            yield Change(stack, name, kind, effect, what, tuple(".".join(path) for path in paths))


def _meaning(kind: str, old: dict[str, Any], new: dict[str, Any]) -> tuple[Effect, str]:
    if kind == "RayService":
        return _ray_service(old.get("spec", {}), new.get("spec", {}))
    if kind in _PODS and old.get("spec", {}).get("template") != new.get("spec", {}).get("template"):
        return Effect.ROLLING, "restarts its pods"
    if kind == "ConfigMap":
        return Effect.IN_PLACE, "is updated; what has read it keeps the old text until it restarts"
    return Effect.IN_PLACE, "is updated"


def _ray_service(old: dict[str, Any], new: dict[str, Any]) -> tuple[Effect, str]:
    if _cluster(old) != _cluster(new):
        if new.get("upgradeStrategy", {}).get("type") == "None":
            return (
                Effect.NEW_RAY_CLUSTER,
                "needs a new Ray cluster, and KubeRay ignores the change until the old one is deleted (upgrade None)",
            )
        return Effect.NEW_RAY_CLUSTER, "gets a new Ray cluster beside the old one"
    if old.get("rayClusterConfig") != new.get("rayClusterConfig"):
        return Effect.IN_PLACE, "changes its number of workers"
    if old.get("serveConfigV2") != new.get("serveConfigV2"):
        return Effect.IN_PLACE, "takes a new Serve config: Ray Serve restarts the engines that differ"
    return Effect.IN_PLACE, "is updated"


def _cluster(spec: dict[str, Any]) -> Any:
    """The part of a RayService whose change makes KubeRay want another cluster."""
    cluster = copy.deepcopy(spec.get("rayClusterConfig", {}))
    for group in cluster.get("workerGroupSpecs", ()):
        for key in _SCALE:
            group.pop(key, None)
        pod = group.get("template", {}).get("spec", {})
        pod.pop("tolerations", None)
        pod.pop("schedulingGates", None)
    return cluster


def _objects(resources: Resources) -> dict[str, dict[str, Any]]:
    found = {}
    for name, resource in resources.items():
        if resource.get("Type") != KUBERNETES:
            continue
        text = _text(resource.get("Properties", {}).get("Manifest"))
        try:
            documents = json.loads(text)
        except ValueError:
            raise UserError(f"{name}: its Manifest is not JSON; was it synthesized by this app?") from None
        for each in documents:
            metadata = each.get("metadata", {})
            labels = metadata.get("labels", {})
            metadata["labels"] = {key: value for key, value in labels.items() if not key.startswith(_PRUNE)}
            parts = (each.get("kind"), metadata.get("namespace"), metadata.get("name"))
            found["/".join(str(part) for part in parts if part)] = each
    return found


def _text(manifest: Any) -> str:
    """The manifest as JSON; what only the deployment knows stands in it as its own expression."""
    if isinstance(manifest, str):
        return manifest
    if isinstance(manifest, Mapping) and "Fn::Join" in manifest:
        parts = manifest["Fn::Join"][1]
        return "".join(
            part if isinstance(part, str) else json.dumps(json.dumps(part))[1:-1] for part in parts
        )
    return ""
