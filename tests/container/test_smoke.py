"""container/smoke.py: what it finds where nothing is, where two builds are, and in the local serving environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvrelay.data import versions
from kvrelay.local.serving.environment import BuildError, require_environment
from tests.container.conftest import CONTAINER


def smoke(
    *arguments: str | Path, python: str | Path = sys.executable, **environment: str
) -> tuple[int, dict[str, Any]]:
    result = subprocess.run(
        [python, CONTAINER / "smoke.py", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(result.stdout)
    return result.returncode, found


def problems(found: dict[str, Any], check: str) -> list[str]:
    return [each["problem"] for each in found["findings"] if each["check"] == check]


@pytest.fixture(scope="module")
def bare() -> str:
    """A Python without the packages of any environment."""
    return str(Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}")


def install(folder: Path, name: str, *files: str) -> None:
    """A distribution's record, as pip leaves it."""
    record = folder / f"{name.replace('-', '_')}-1.3.1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.3.1\n")
    (record / "RECORD").write_text("".join(f"{file},,\n" for file in files))


def test_where_nothing_is_each_absence_is_a_finding(bare: str) -> None:
    code, found = smoke(python=bare)
    assert code == 1
    assert any(problem.startswith("vllm: ModuleNotFoundError") for problem in problems(found, "import"))
    assert "no nixl-cu build installed; exactly one is needed" in problems(found, "nixl")
    assert found["versions"]["ray"] is None


def test_two_cuda_builds_of_nixl_are_a_finding(bare: str, tmp_path: Path) -> None:
    install(tmp_path, "nixl-cu12")
    install(tmp_path, "nixl-cu13")
    _, found = smoke(python=bare, PYTHONPATH=str(tmp_path))
    assert "nixl-cu12 and nixl-cu13 installed; exactly one is needed" in problems(found, "nixl")


def test_a_wheel_without_the_backend_is_a_finding(bare: str, tmp_path: Path) -> None:
    install(tmp_path, "nixl-cu13", "nixl_cu13/__init__.py")
    _, found = smoke(python=bare, PYTHONPATH=str(tmp_path))
    assert problems(found, "nixl") == ["libplugin_LIBFABRIC.so is not there: NIXL has no LIBFABRIC backend"]


def test_a_plugin_whose_libraries_are_there_has_no_finding(bare: str, tmp_path: Path) -> None:
    import _ssl

    shutil.copy(_ssl.__file__, tmp_path / "libplugin_LIBFABRIC.so")
    install(tmp_path, "nixl-cu13", "libplugin_LIBFABRIC.so")
    _, found = smoke(python=bare, PYTHONPATH=str(tmp_path))
    assert found["nixl"]["plugin"] == str(tmp_path / "libplugin_LIBFABRIC.so")
    assert found["nixl"]["libraries"]["libc.so.6"]
    assert problems(found, "libraries") == []


def test_a_plugin_folder_of_your_own_comes_first(bare: str, tmp_path: Path) -> None:
    install(tmp_path, "nixl-cu13", "libplugin_LIBFABRIC.so")
    _, found = smoke(python=bare, PYTHONPATH=str(tmp_path), NIXL_PLUGIN_DIR=str(tmp_path / "other"))
    assert found["nixl"]["plugin"] is None


def test_pins_that_are_not_there_are_wrong_input(bare: str) -> None:
    result = subprocess.run(
        [bare, CONTAINER / "smoke.py", "--pins", "absent.yaml"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "absent.yaml: no such file" in result.stderr


@pytest.fixture(scope="module")
def serving() -> dict[str, Any]:
    """What it finds in the local serving environment, which holds the container's Ray, vLLM and NIXL for CPU."""
    try:
        environment = require_environment()
    except BuildError as error:
        pytest.skip(str(error))
    code, found = smoke("--pins", CONTAINER / "pins.yaml", python=environment.interpreter)
    assert code == 1
    return found


def test_the_serving_environment_holds_the_pinned_versions(serving: dict[str, Any]) -> None:
    pinned, held = versions().container, serving["versions"]
    assert (held["ray"], held["vllm"], held["nixl"]) == (pinned.ray, pinned.vllm, pinned.nixl)
    assert held["pytorch"].partition("+")[0] == pinned.pytorch
    assert problems(serving, "import") == []


def test_the_serving_environment_has_one_build_of_nixl_with_the_backend(serving: dict[str, Any]) -> None:
    assert serving["nixl"]["builds"] == ["nixl-cu13"]
    assert serving["nixl"]["plugin"].endswith("libplugin_LIBFABRIC.so")
    assert serving["nixl"]["libraries"]["libserdes.so"], "the wheel brings its own libraries"
    assert problems(serving, "nixl") == []


def test_the_serving_environment_lacks_what_the_container_adds_and_nothing_else(
    serving: dict[str, Any],
) -> None:
    """The wheel brings neither libfabric nor hwloc: they come with AWS's EFA installer, whose record is missing too.
    The driver's libcuda is missing as well, which counts on a GPU node alone. Without CUDA's runtime beside torch
    (its CPU build) there is no libcudart, and no CUDA version."""
    lacking = {problem.split()[2].rstrip(",") for problem in problems(serving, "libraries")}
    assert (
        {"libfabric.so.1", "libhwloc.so.15"}
        <= lacking
        <= {"libfabric.so.1", "libhwloc.so.15", "libcudart.so.13"}
    )
    other = {problem.partition(" is ")[0] for problem in problems(serving, "pins")}
    assert "efa_installer" in other
    assert other <= {"efa_installer", "python", "cuda"}
    known = {"libraries", "pins", "tools"}
    assert {each["check"] for each in serving["findings"]} <= known
