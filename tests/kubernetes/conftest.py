"""Tests against a real control plane. They run when this folder is named: `make test-kubernetes`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import LocalCluster, nodes_of
from kvrelay.local.kubernetes.tools import TOOLS, program
from kvrelay.settings import Deployment


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Plain `pytest` leaves these out: they need programs that take minutes to build."""
    here = Path(__file__).parent
    named = [Path(str(argument).split("::")[0]).resolve() for argument in config.invocation_params.args]
    return None if any(path == here or here in path.parents for path in named) else True


@pytest.fixture(scope="session", autouse=True)
def _tools() -> None:
    """Fails at once, in one line, where the programs are not built."""
    for tool in TOOLS:
        program(tool.names[0])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A control plane with the reference deployment's nodes, all devices offered; shared by a module's tests."""
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder, nodes=nodes_of(Deployment(), plugged=True)) as running:
        yield running
