"""Our slim CRDs, held against upstream's at the pinned version."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvrelay.data import versions
from tests.kvrelay_k8s.manifests import Object, find, objects_of
from tests.kvrelay_k8s.schemas import Schema, defaulted, faults, holds, openapi_schema, rules
from tests.serve_app.examples import DEPLOYMENTS, PROJECT

UPSTREAM = PROJECT.parent / "shared" / "crds" / f"kuberay-{versions().kuberay}"
KINDS = ("RayCluster", "RayService", "RayJob")
# Where a pod or another object of Kubernetes begins: open in ours, spelled out upstream.
OPEN = "x-kubernetes-preserve-unknown-fields"

needs_upstream = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason=f"upstream's CRDs are not at {UPSTREAM}; KubeRay's release has them"
)


@cache
def _upstream(kind: str) -> Object:
    path: Path = UPSTREAM / f"ray.io_{kind.lower()}s.yaml"
    crd: Object = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return crd


def _ours(kind: str) -> Object:
    return find(objects_of("qwen3.5-9b"), "CustomResourceDefinition", f"{kind.lower()}s.ray.io")


def _ray_service() -> Object:
    return copy.deepcopy(find(objects_of("qwen3.5-9b"), "RayService"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crd_is_small_enough_for_a_plain_apply(kind: str) -> None:
    """kubectl keeps the whole object in an annotation of 262144 bytes at most."""
    assert len(yaml.safe_dump(_ours(kind))) < 60_000


@needs_upstream
@pytest.mark.parametrize("kind", KINDS)
def test_it_names_the_same_fields_with_the_same_types_defaults_and_bounds(kind: str) -> None:
    assert list(_differences(openapi_schema(_ours(kind)), openapi_schema(_upstream(kind)), "")) == []


@needs_upstream
@pytest.mark.parametrize("kind", KINDS)
def test_its_names_and_scope_are_upstreams(kind: str) -> None:
    ours, upstream = _ours(kind)["spec"], _upstream(kind)["spec"]
    assert {key: ours[key] for key in ("group", "scope", "names")} == {
        key: upstream[key] for key in ("group", "scope", "names")
    }


@needs_upstream
@pytest.mark.parametrize("kind", KINDS)
def test_its_cel_rules_are_upstreams(kind: str) -> None:
    def told(crd: Object) -> set[tuple[str, str]]:
        return {(path, rule["rule"]) for path, rule in rules(openapi_schema(crd))}

    assert told(_ours(kind)) == told(_upstream(kind))


def _differences(ours: Schema, upstream: Schema, path: str) -> Iterator[str]:
    """Where ours says something else than upstream; below an open mapping it says nothing."""
    if ours.get(OPEN) and "properties" not in ours:
        return
    for key in ("type", "format", "default", "enum", "minimum", "maximum", "minItems", "pattern", "nullable"):
        if ours.get(key) != upstream.get(key):
            yield f"{path}: {key} is {ours.get(key)!r}, upstream {upstream.get(key)!r}"
    if sorted(ours.get("required", [])) != sorted(upstream.get("required", [])):
        yield f"{path}: required is {ours.get('required')}, upstream {upstream.get('required')}"
    fields, theirs = ours.get("properties", {}), upstream.get("properties", {})
    if set(fields) - set(theirs) or (set(theirs) - set(fields) and not ours.get(OPEN)):
        yield f"{path}: fields that only one of them has: {sorted(set(fields) ^ set(theirs))}"
    for name in set(fields) & set(theirs):
        yield from _differences(fields[name], theirs[name], f"{path}.{name}")
    if "items" in ours:
        yield from _differences(ours["items"], upstream.get("items", {}), f"{path}[]")


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_our_ray_service_is_valid_by_our_crd(name: str) -> None:
    schema = openapi_schema(_ours("RayService"))
    assert faults(defaulted(find(objects_of(name), "RayService"), schema), schema) == []


@needs_upstream
@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_our_ray_service_is_valid_by_upstreams_crd_and_gets_the_same_defaults(name: str) -> None:
    service = find(objects_of(name), "RayService")
    upstream, ours = openapi_schema(_upstream("RayService")), openapi_schema(_ours("RayService"))
    assert faults(defaulted(service, upstream), upstream) == []
    assert _without_pods(defaulted(service, upstream)) == _without_pods(defaulted(service, ours))


def _without_pods(service: Object) -> Object:
    """Pod templates aside, whose defaults the API server sets when the pods are made."""
    stripped = copy.deepcopy(service)
    cluster = stripped["spec"]["rayClusterConfig"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        del group["template"]
    return stripped


WRONG: list[tuple[str, Any]] = [
    ("rayClusterConfg", {}),
    ("rayClusterConfig.workerGroupSpecs.0.replicaz", 1),
    ("rayClusterConfig.workerGroupSpecs.0.replicas", 2**31),
    ("rayClusterConfig.workerGroupSpecs.0.replicas", "one"),
    ("rayClusterConfig.workerGroupSpecs.0.rayStartParams.num-gpus", 1),
    ("rayClusterConfig.authOptions.mode", "tokens"),
    ("rayClusterDeletionDelaySeconds", -1),
    ("rayClusterConfig.headGroupSpec.template", None),
    ("rayClusterConfig.managedBy", "somebody"),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_our_crd_refuses_what_is_wrong(path: str, value: Any) -> None:
    service = _ray_service()
    *above, last = path.split(".")
    part: Any = service["spec"]
    for key in above:
        part = part[int(key)] if key.isdigit() else part[key]
    part[last] = value
    schema = openapi_schema(_ours("RayService"))
    assert len(faults(defaulted(service, schema), schema)) == 1


def test_the_immutable_and_exclusive_rules_say_what_they_should() -> None:
    by_rule = {rule["rule"]: rule for kind in KINDS for _, rule in rules(openapi_schema(_ours(kind)))}
    (immutable,) = (rule for rule in by_rule if rule == "self == oldSelf")
    assert holds(immutable, "redis", "redis")
    assert not holds(immutable, "redis", "rocksdb")
    (exclusive,) = (rule for rule in by_rule if "deletionRules)" in rule and rule.startswith("!"))
    assert holds(exclusive, {"onSuccess": {}, "onFailure": {}})
    assert not holds(exclusive, {"onSuccess": {}, "deletionRules": []})
