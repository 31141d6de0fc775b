"""How the local cluster's programs are found and built."""

import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvrelay.local.kubernetes import ray_environment, tools
from kvrelay.local.kubernetes.command import cluster
from kvrelay.local.kubernetes.tools import ETCD, KUBERAY, KUBERNETES, TOOLS, Tool, ToolsMissingError


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVRELAY_CACHE", str(tmp_path))
    return tmp_path


def fake_go(folder: Path, script: str) -> None:
    go = folder / "go"
    go.write_text(f"#!/bin/sh\n{script}\n")
    go.chmod(go.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.folder)
def test_versions_are_pinned_and_hashed(tool: Tool) -> None:
    assert tool.version.startswith("v")
    pinned = f"{tool.pinned} {tool.version}"
    assert pinned in (tool.source / "go.sum").read_text()


def test_kubernetes_is_of_the_version_that_deployments_name() -> None:
    from kvrelay.settings import Deployment

    assert KUBERNETES.version.startswith(f"v{Deployment().cluster.kubernetes_version}.")
    assert "gitMinor=36" in KUBERNETES.linker_flags


def test_a_changed_pin_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tools.SOURCES, tmp_path / "tools")
    before = ETCD.key
    monkeypatch.setattr(tools, "SOURCES", tmp_path / "tools")
    assert ETCD.key == before
    sums = tmp_path / "tools" / "etcd" / "go.sum"
    sums.write_text(sums.read_text() + "\n")
    assert ETCD.key != before


def test_a_stand_in_that_changes_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(tools.SOURCES, tmp_path / "tools")
    before = KUBERAY.key
    monkeypatch.setattr(tools, "SOURCES", tmp_path / "tools")
    stub = next((tmp_path / "tools" / "kuberay").rglob("podgroup.go"))
    stub.write_text(stub.read_text() + "\n")
    assert KUBERAY.key != before


@pytest.mark.usefixtures("empty_cache")
def test_what_is_not_built_is_said_in_one_line() -> None:
    with pytest.raises(ToolsMissingError) as caught:
        tools.program("kube-scheduler")
    assert str(caught.value) == f"kube-scheduler {KUBERNETES.version} is not built; run make tools"


@pytest.mark.usefixtures("empty_cache")
def test_no_go_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolsMissingError, match=r"^go is not on PATH; install Go 1\.26 or newer"):
        tools.build_missing(lambda line: None)


@pytest.mark.usefixtures("empty_cache")
def test_an_old_go_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_go(tmp_path, "echo go version go1.24.4 linux/amd64")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToolsMissingError, match=r"^go is 1\.24\.4; install Go 1\.26 or newer"):
        tools.build_missing(lambda line: None)


def test_a_failed_build_leaves_no_program(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(
        tmp_path,
        'case $1 in version) echo go version go1.26.8 linux/amd64;; *) echo "no network" >&2; exit 1;; esac',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    said: list[str] = []
    with pytest.raises(
        ToolsMissingError, match=r"^building etcd v[\d.]+ failed: no network; see it whole with: cd "
    ):
        tools.build_missing(said.append)
    assert said[0].startswith("tools: building etcd")
    assert set(tools.missing()) == set(TOOLS)
    assert not list((empty_cache / "tools").iterdir())


@pytest.mark.usefixtures("empty_cache")
def test_check_builds_nothing_and_fails_where_something_is_missing() -> None:
    result = CliRunner().invoke(cluster, ["tools", "--check"])
    assert result.exit_code == 1
    assert f"etcd {ETCD.version}: missing" in result.output


@pytest.mark.usefixtures("empty_cache")
def test_another_operator_than_the_deployed_one_is_said() -> None:
    from kvrelay.data import versions

    output = CliRunner().invoke(cluster, ["tools", "--check"]).output
    differs = KUBERAY.version != f"v{versions().kuberay}"
    assert (f"deployments run KubeRay {versions().kuberay}" in output) == differs


def test_the_ray_environment_has_the_containers_ray() -> None:
    from kvrelay.data.versions import versions

    wanted = (tools.SOURCES / "ray" / "requirements.txt").read_text().splitlines()
    assert f"ray=={versions().container.ray}" in {line.replace("[serve]", "") for line in wanted}


def test_an_environment_for_other_requirements_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "stamp"
    stamp.write_text("of other requirements")
    monkeypatch.setattr(ray_environment, "_STAMP", stamp)
    with pytest.raises(ToolsMissingError, match="run make tools"):
        ray_environment.ray_environment()
