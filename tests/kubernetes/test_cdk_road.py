"""The deployment's own road into a real cluster and out of it: cdk, CloudFormation, the kubectl provider's handler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kvrelay.local.aws.account import KubernetesEndpoint
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.kubernetes import LocalCluster, nodes_of, wait_for
from kvrelay.local.kubernetes.programs import kuberay_operator
from kvrelay.ops.cdk_cli import PROJECT, cdk_lines
from kvrelay.settings import Deployment
from tests.kubernetes.product import all_of_ours, node_of, objects_of, service_in


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The reference deployment's nodes, whose devices wait for their plugins, and nothing on them."""
    folder = tmp_path_factory.mktemp("empty")
    with LocalCluster(folder, nodes=nodes_of(Deployment()), programs=[kuberay_operator()]) as running:
        yield running


@pytest.fixture(scope="module")
def aws(empty: LocalCluster) -> Iterator[EmulatedAws]:
    """An account whose EKS is that cluster."""
    endpoint = empty.endpoint
    with EmulatedAws(kubernetes=KubernetesEndpoint(endpoint.url, endpoint.ca_pem, endpoint.token)) as running:
        yield running


def test_cdk_deploys_all_into_the_cluster_and_destroys_all_of_it(
    empty: LocalCluster, aws: EmulatedAws, tmp_path: Path
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump({"name": "kvrelay"}))
    (tmp_path / "serve_configs").symlink_to(PROJECT / "serve_configs")

    def cdk(*arguments: str) -> None:
        environment = aws.environment() | {"CDK_VALIDATION": "false", "NO_COLOR": "1"}
        list(cdk_lines(*arguments, deployment=file, environment=environment))

    service = service_in(empty)
    cdk("bootstrap")
    cdk("deploy", "--all", "--require-approval", "never", "--output", str(tmp_path / "cdk.out"))
    applied = {
        f"{item['kind']} {item['metadata']['name']}" for item in objects_of(Deployment(), "qwen3.5-9b")
    }
    assert applied <= set(all_of_ours(empty.api))
    wait_for("all of Ray placed", lambda: len([pod for pod in service.pods() if node_of(pod)]) == 3, 120)

    cdk("destroy", "--all", "--force", "--app", str(tmp_path / "cdk.out"))
    assert all_of_ours(empty.api) == []
    assert empty.api.list("v1", "Pod") == []
    assert [str(each) for each in aws.leftovers(bootstrap=False)] == []
