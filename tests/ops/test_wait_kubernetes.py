"""kvrelay wait reads a real Kubernetes: the scheduler's own words become the cause. `KVRELAY_KUBERNETES=1` runs it."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from kvrelay.local.aws.account import KubernetesEndpoint
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.kubernetes import LocalCluster, nodes_of, wait_for
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.wait.gathering import Gatherer
from kvrelay.ops.wait.judging import judge
from kvrelay.settings import Deployment
from tests.ops.recorded.world import NAMESPACE, WANTED, by_name

pytestmark = pytest.mark.skipif(
    os.environ.get("KVRELAY_KUBERNETES") != "1",
    reason="needs the built control plane; run make test-kubernetes",
)


def worker(role: str) -> dict[str, Any]:
    resources = {"nvidia.com/gpu": "1", "vpc.amazonaws.com/efa": "1"}
    container = {"name": "ray-worker", "image": "x:1", "resources": {"limits": resources}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"ray-llm-{role}",
            "namespace": NAMESPACE,
            "labels": {"ray.io/node-type": "worker", "ray.io/group": role},
        },
        "spec": {
            "containers": [container],
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "nodeSelector": {"role": "gpu-worker"},
        },
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes: the system's, and one for a GPU worker where two are wanted."""
    nodes = nodes_of(Deployment(), plugged=True)[:2]
    with LocalCluster(tmp_path_factory.mktemp("cluster"), nodes=nodes) as running:
        running.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        wait_for(
            "the first account", lambda: running.api.find("v1", "ServiceAccount", "default", NAMESPACE), 60
        )
        running.api.create(worker("prefill"))
        wait_for(
            "prefill's node",
            lambda: running.api.get("v1", "Pod", "ray-llm-prefill", NAMESPACE)["spec"].get("nodeName"),
        )
        running.api.create(worker("decode"))
        yield running


def test_a_decode_pod_without_a_node_is_explained_through_the_whole_reader(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = cluster.endpoint
    given = KubernetesEndpoint(endpoint.url, endpoint.ca_pem, endpoint.token)
    with EmulatedAws(kubernetes=given) as aws:
        for name, value in aws.environment().items():
            monkeypatch.setenv(name, value)
        # A real API server knows no IAM of an emulated account: a kubeconfig that leads there is the way in.
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        described = {
            "name": "kvrelay",
            "status": "ACTIVE",
            "endpoint": endpoint.url,
            "createdAt": datetime.now(UTC),
            "certificateAuthority": {"data": base64.b64encode(endpoint.ca_pem.encode()).decode()},
        }
        aws.account.answers.put("eks", "DescribeCluster", lambda given: {"cluster": described})
        aws.account.answers.put("eks", "ListNodegroups", lambda given: {"nodegroups": []})
        gatherer = Gatherer(Aws("us-east-2"), WANTED)

        def cause() -> Any:
            return by_name(judge(gatherer.look(), WANTED))["workers placed"].cause

        found = wait_for("a cause", cause, 60)
        snapshot = gatherer.look()

    assert found.name == "GPU"
    assert found.said == "decode pod ray-llm-decode waits: no node has a free GPU (nvidia.com/gpu)"
    assert by_name(judge(snapshot, WANTED))["GPU nodes"].detail == "1 of 2 ready"
    # No kubelet stands behind simulated nodes: what would run in a pod can't, and that alone is not seen.
    assert set(snapshot.unread) == {"engines' logs"}
    said = snapshot.unread["engines' logs"]
    assert said.startswith(
        "exec in inference/ray-llm-prefill: Internal error occurred: error sending request"
    )
    assert "python3" not in said
