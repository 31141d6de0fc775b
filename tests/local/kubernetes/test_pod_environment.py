"""The environment and the programs of pods that really run."""

import pytest

from kvrelay.local.kubernetes.api import Api, Endpoint, Object
from kvrelay.local.kubernetes.kubelet import device_of
from kvrelay.local.kubernetes.nodes import EFA, GPU
from kvrelay.local.kubernetes.sandbox import environment_of, expand

# Nothing here asks a server.
NOWHERE = Api(Endpoint("https://127.0.0.1:1", "", ""))


def environment(entries: list[Object]) -> dict[str, str]:
    pod: Object = {
        "metadata": {"name": "head", "namespace": "inference", "labels": {"ray.io/cluster": "llm"}},
        "spec": {"nodeName": "n"},
    }
    return environment_of(NOWHERE, pod, {"name": "main", "env": entries}, "10.244.1.9")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "head"),
        ("metadata.namespace", "inference"),
        ("metadata.labels['ray.io/cluster']", "llm"),
        ("spec.nodeName", "n"),
        ("status.podIP", "10.244.1.9"),
    ],
)
def test_fields_of_the_pod_reach_its_environment(path: str, value: str) -> None:
    assert environment([{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]) == {"X": value}


def test_values_may_name_those_before_them() -> None:
    entries = [{"name": "HOST", "value": "a"}, {"name": "URL", "value": "http://$(HOST):1"}]
    assert environment(entries)["URL"] == "http://a:1"


def test_unknown_names_stay_as_they_are() -> None:
    assert expand("$(NOBODY) $HOME", {}) == "$(NOBODY) $HOME"


@pytest.mark.parametrize(
    ("image", "device"),
    [
        ("602401143452.dkr.ecr.us-east-2.amazonaws.com/eks/aws-efa-k8s-device-plugin:v0.5.20", EFA),
        ("nvcr.io/nvidia/k8s-device-plugin:v0.20.0", GPU),
        ("public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0", None),
    ],
)
def test_device_plugins_are_known_by_their_image(image: str, device: str | None) -> None:
    assert device_of({"spec": {"containers": [{"name": "x", "image": image}]}}) == device
