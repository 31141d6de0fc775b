"""Tests against a real control plane. `make test-kubernetes` runs them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import LocalCluster, nodes_of
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import kuberay_operator, ray_head
from kvrelay.local.kubernetes.ray_environment import ray_environment
from kvrelay.local.kubernetes.tools import TOOLS, program
from kvrelay.settings import Deployment
from tests.kubernetes.product import SIMULATED, running_product, serving_service
from tests.kubernetes.ray_service import Service


def is_simulated(pod: Object) -> bool:
    labels: dict[str, str] = pod["metadata"].get("labels", {})
    return labels.items() >= SIMULATED.items()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Plain `pytest` skips these."""
    if os.environ.get("KVRELAY_KUBERNETES") == "1":
        return
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="builds take minutes; run make test-kubernetes"))


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    """Fails at once, in one line, where the programs are not built."""
    for tool in TOOLS:
        program(tool.names[0])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A control plane with the reference deployment's nodes, all devices offered, and nothing in it."""
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, nodes=nodes_of(Deployment(), plugged=True)) as running:
        yield running


@pytest.fixture(scope="session")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The product but for its RayService, with EKS's add-ons and the real operator, on the system node alone.

    Tests bring the GPU nodes that they need and leave it as they found it.
    """
    deployment = Deployment()
    nodes = [node for node in nodes_of(deployment) if not node.taints]
    with running_product(tmp_path_factory.mktemp("product"), deployment, nodes=nodes) as running:
        yield running


@pytest.fixture(scope="session")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The product on the reference deployment's nodes; heads of its RayService really run.

    The operator's caches list before they watch, as they do where an API server does not stream lists.
    """
    head = ray_head(ray_environment(), {"PYTHONPATH": str(Path(__file__).parent / "serve_apps")})
    real = replace(head, matches=lambda pod: head.matches(pod) and not is_simulated(pod))
    operator = kuberay_operator({"KUBE_FEATURE_WatchListClient": "false"})
    folder = tmp_path_factory.mktemp("serving")
    with running_product(folder, Deployment(), programs=[real], operator=operator) as running:
        yield running


@pytest.fixture
def service(serving: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Service]:
    """The RayService with a tiny app, serving; every state of it during the test goes to the `states` folder."""
    found = serving_service(serving)
    with found.recorded() as history:
        yield found
    folder = serving.folder / "states"
    folder.mkdir(exist_ok=True)
    states = [vars(state) for state in history]
    (folder / f"{request.node.name}.json").write_text(json.dumps(states, indent=1))
