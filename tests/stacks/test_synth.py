"""Synth as a whole: what it needs, what it gives, and how it says no."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.stacks.conftest import Cdk

REPOSITORY = Path(__file__).parents[2]


def test_the_same_file_gives_the_same_bytes(cdk: Cdk, tmp_path: Path) -> None:
    assert cdk("synth", "--quiet").returncode == 0
    first = _contents(tmp_path / "cdk.out")
    shutil.rmtree(tmp_path / "cdk.out")
    assert cdk("synth", "--quiet").returncode == 0
    assert _contents(tmp_path / "cdk.out") == first


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace without interfaces needs root")
def test_synth_needs_no_network_and_no_credentials(tmp_path: Path) -> None:
    result = subprocess.run(
        [
            "unshare",
            "--net",
            REPOSITORY / "node_modules/.bin/cdk",
            "synth",
            "--quiet",
            "--output",
            tmp_path / "cdk.out",
        ],
        cwd=REPOSITORY,
        env={
            "PATH": f"{REPOSITORY}/.venv/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
            "CDK_VALIDATION": "false",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert not (REPOSITORY / "cdk.context.json").exists(), "nothing may be looked up and cached"


def test_another_file_can_be_named(cdk: Cdk, tmp_path: Path) -> None:
    (tmp_path / "blue.yaml").write_text(
        f"name: blue\nserving: {{serve_config: {REPOSITORY}/serve_configs/qwen3.5-9b.yaml}}\n"
    )
    result = cdk("list", "--long", "-c", f"deployment={tmp_path}/blue.yaml")
    assert "blue-network" in result.stdout, result.stderr


def test_a_wrong_file_stops_synth_with_its_line_and_no_traceback(cdk: Cdk, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("region: us-east-2\nzones: [us-east-2a]\n")
    result = cdk("synth", "--quiet", "-c", f"deployment={tmp_path}/wrong.yaml")
    assert result.returncode != 0
    assert f"{tmp_path}/wrong.yaml:2: zones: has 1 entries; at least 2 are needed" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["-c", "import constructs; print(constructs.__file__)"],
        ["-m", "pytest", "--collect-only", "-q", "tests/stacks/test_network.py"],
    ],
)
def test_our_constructs_folder_never_shadows_pypis(command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, *command], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Error" not in result.stdout
    assert not (REPOSITORY / "constructs" / "__init__.py").exists()
    if "-c" in command:
        assert "site-packages" in result.stdout


def test_mypy_takes_constructs_from_pypi(tmp_path: Path) -> None:
    probe = tmp_path / "probe.py"
    probe.write_text("from constructs import Construct\nreveal_type(Construct)\n")
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--config-file",
            REPOSITORY / "pyproject.toml",
            "--cache-dir",
            tmp_path,
            probe,
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "constructs.Construct" in result.stdout, result.stdout
    assert result.returncode == 0, result.stdout


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.suffix == ".json"
    }
