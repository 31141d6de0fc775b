"""Tests against a real control plane. `make test-kubernetes` runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import LocalCluster, nodes_of
from kvrelay.local.kubernetes.tools import TOOLS, program
from kvrelay.settings import Deployment
from tests.kubernetes.product import running_product


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
