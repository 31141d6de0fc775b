"""Our slim RayService definition and upstream's, each in a real API server: they store the same."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvrelay.data import versions
from kvrelay.local.kubernetes import Api, ApiError, LocalCluster, apply_all
from kvrelay.local.kubernetes.api import Object
from tests.kubernetes.product import objects_of
from tests.kvrelay_k8s.schemas import Schema, openapi_schema
from tests.serve_app.examples import DEPLOYMENTS, PROJECT

UPSTREAM = PROJECT.parent / "shared" / "crds" / f"kuberay-{versions().kuberay}"
NAMESPACE = "generated"
EXAMPLES = 200
ANYTHING = "x-kubernetes-preserve-unknown-fields"
Values = st.SearchStrategy[Any]

WORDS = st.text("abcdefgh-", min_size=1, max_size=8)
QUANTITIES = st.sampled_from(["1", "500m", "2Gi", "1e3", 4])
RESOURCES = st.fixed_dictionaries({}, optional={"limits": st.dictionaries(WORDS, QUANTITIES, max_size=2)})
# `protocol` is written out: upstream's definition fills it in where ours leaves it to the pod's own defaults.
CONTAINERS = st.fixed_dictionaries(
    {"name": WORDS, "image": WORDS},
    optional={
        "args": st.lists(WORDS, max_size=2),
        "env": st.lists(
            st.fixed_dictionaries({"name": WORDS, "value": WORDS}), max_size=2, unique_by=lambda x: x["name"]
        ),
        "ports": st.just([{"name": "serve", "containerPort": 8000, "protocol": "TCP"}]),
        "resources": RESOURCES,
        "readinessProbe": st.just({"httpGet": {"path": "/", "port": "serve"}, "periodSeconds": 5}),
        "securityContext": st.just({"privileged": True}),
    },
)
TEMPLATES = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"containers": st.lists(CONTAINERS, min_size=1, max_size=1)})},
    optional={"metadata": st.fixed_dictionaries({"labels": st.dictionaries(WORDS, WORDS, max_size=2)})},
)
# What belongs to Kubernetes is open in ours and spelled out upstream: here it is always well formed.
OPEN: dict[str, Values] = {
    "template": TEMPLATES,
    "resources": RESOURCES,
    "headService": st.just({"spec": {"type": "ClusterIP"}}),
    "serveService": st.just({"metadata": {"name": "serve"}}),
    "env": st.just({"name": "A", "value": "b"}),
    "envFrom": st.just({"prefix": "X_"}),
    "volumeMounts": st.just({"name": "shm", "mountPath": "/dev/shm"}),
    "securityContext": st.just({"runAsUser": 1000}),
}
MANAGERS = st.sampled_from(["ray.io/kuberay-operator", "kueue.x-k8s.io/multikueue", "somebody"])


def values(schema: Schema, name: str = "") -> Values:
    """What fits a schema, and now and then what does not: null, another type, a number out of range."""
    if name in OPEN and schema.get(ANYTHING):
        return OPEN[name]
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], *schema["enum"], "other"])
    if name == "managedBy":
        return MANAGERS
    if schema.get("x-kubernetes-int-or-string"):
        return QUANTITIES
    kind = schema.get("type")
    if kind == "object":
        return objects(schema)
    if kind == "array":
        return st.lists(values(schema["items"], name), max_size=2)
    plain: dict[Any, Values] = {
        "integer": st.integers(-1, 9) | st.sampled_from([2**31 - 1, 2**31]),
        "boolean": st.booleans(),
        "number": st.floats(0, 9, width=16),
        "string": WORDS,
    }
    return st.one_of(*[plain[kind]] * 8, st.none(), st.just([]))


def objects(schema: Schema) -> Values:
    """A mapping: required keys always, others sometimes, one that nobody knows now and then."""
    if isinstance(schema.get("additionalProperties"), dict):
        return st.dictionaries(WORDS, WORDS, max_size=2)
    fields = schema.get("properties", {})
    required = set(schema.get("required", ()))
    chosen = {
        key: values(field, key) for key, field in fields.items() if key in OPEN or not field.get(ANYTHING)
    }
    known = st.fixed_dictionaries(
        {key: each for key, each in chosen.items() if key in required},
        optional={key: each for key, each in chosen.items() if key not in required},
    )
    unknown = st.sampled_from([{}, {}, {}, {"nobodyKnowsThis": 1}])
    return st.tuples(known, unknown).map(lambda both: {**both[0], **both[1]})


def stored(api: Api, name: str, spec: Object) -> Object | int:
    """What the server keeps of a RayService's spec, or the status it refuses it with."""
    item = {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }
    try:
        api.create(item)
    except ApiError as error:
        return error.status
    kept: Object = api.get("ray.io/v1", "RayService", name, NAMESPACE)["spec"]
    api.delete(api.path_of(item))
    return kept


@pytest.fixture(scope="module")
def upstream(cluster: LocalCluster) -> Api:
    """A server with upstream's definitions."""
    if not UPSTREAM.is_dir():
        pytest.skip(f"upstream's definitions are not at {UPSTREAM}; KubeRay's release has them")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    definitions = [yaml.load(path.read_text(), Loader=loader) for path in UPSTREAM.glob("*.yaml")]
    apply_all(cluster.api, [*definitions, _namespace()])
    return cluster.api


@pytest.fixture(scope="module")
def ours(product: LocalCluster) -> Api:
    """A server with ours. Its operator looks at another namespace."""
    apply_all(product.api, [_namespace()])
    return product.api


def _namespace() -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


@pytest.mark.parametrize("config", DEPLOYMENTS)
def test_the_ray_service_of_each_serve_config_is_stored_alike(upstream: Api, ours: Api, config: str) -> None:
    (service,) = [item for item in objects_of(DEPLOYMENTS[config], config) if item["kind"] == "RayService"]
    kept = stored(ours, "ray-llm", service["spec"])
    assert isinstance(kept, dict)
    assert kept == _without_pod_defaults(stored(upstream, "ray-llm", service["spec"]))


def _without_pod_defaults(value: Any) -> Any:
    """Upstream writes a port's `protocol: TCP` into templates; in ours the pod made of one gets it."""
    if isinstance(value, dict):
        dropped = {"protocol"} if "containerPort" in value and value.get("protocol") == "TCP" else set()
        return {key: _without_pod_defaults(each) for key, each in value.items() if key not in dropped}
    return [_without_pod_defaults(each) for each in value] if isinstance(value, list) else value


def test_generated_ray_services_are_stored_or_refused_alike(upstream: Api, ours: Api) -> None:
    (definition,) = [
        item
        for item in objects_of(DEPLOYMENTS["qwen3-8b"])
        if item["kind"] == "CustomResourceDefinition" and item["metadata"]["name"] == "rayservices.ray.io"
    ]
    numbers = count()
    outcomes: list[bool] = []

    @settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(values(openapi_schema(definition)["properties"]["spec"]))
    def compare(spec: Object) -> None:
        name = f"generated-{next(numbers)}"
        kept = stored(ours, name, spec)
        assert kept == stored(upstream, name, spec)
        outcomes.append(isinstance(kept, dict))

    compare()
    assert len(outcomes) >= EXAMPLES
    assert EXAMPLES / 5 < sum(outcomes) < len(outcomes), "both outcomes occur often enough to mean something"
