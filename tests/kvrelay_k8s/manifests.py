"""The charts of each serve config, made once for all tests: a jsii process takes seconds to start."""

from __future__ import annotations

from functools import cache
from typing import Any

from kvrelay.settings import Deployment
from kvrelay_k8s import ManifestSet, charts
from tests.serve_app.examples import DEPLOYMENTS, example

Object = dict[str, Any]


@cache
def sets_of(name: str) -> tuple[ManifestSet, ...]:
    """The sets of a serve config on its nodes."""
    return tuple(charts(DEPLOYMENTS[name], example(name)))


def objects_of(name: str) -> list[Object]:
    """All objects of a serve config."""
    return [each for one in sets_of(name) for each in one.objects]


@cache
def with_settings(**serving: Any) -> tuple[ManifestSet, ...]:
    """The reference app with other settings of `serving`; weights as `(key, value)` pairs."""
    if "weights" in serving:
        serving["weights"] = dict(serving["weights"])
    counts = {"gpu_nodes": {"groups": [{"count": 2, "max_count": 4}]}}
    return tuple(charts(Deployment.model_validate({"serving": serving, **counts}), example("qwen3.5-9b")))


def find(objects: list[Object] | tuple[ManifestSet, ...], kind: str, name: str | None = None) -> Object:
    """The one object of a kind (and name)."""
    flat = [
        each
        for one in objects
        for each in (one.objects if isinstance(one, ManifestSet) else [one])
        if each["kind"] == kind and name in (None, each["metadata"]["name"])
    ]
    assert len(flat) == 1, f"{len(flat)} objects {kind} {name}"
    return flat[0]


def cluster_of(objects: list[Object] | tuple[ManifestSet, ...]) -> Object:
    """The Ray cluster of the RayService."""
    cluster: Object = find(objects, "RayService")["spec"]["rayClusterConfig"]
    return cluster


def pods_of(cluster: Object) -> dict[str, Object]:
    """Pod specs by group, the head's as `head`."""
    pods = {"head": cluster["headGroupSpec"]["template"]["spec"]}
    return pods | {each["groupName"]: each["template"]["spec"] for each in cluster["workerGroupSpecs"]}
