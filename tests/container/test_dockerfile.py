"""The Dockerfile: everything that it names is there or is pinned. No engine builds it here."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import stat
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kvrelay.data import versions
from kvrelay_k8s.ray_container import alive
from tests.container.conftest import CONTAINER, Dockerfile

BUILT_IN = {"PATH", "HOME"}


def test_the_base_is_pinned_by_a_digest_that_has_no_default(dockerfile: Dockerfile) -> None:
    assert dockerfile.values("FROM") == ["${BASE_IMAGE}:${BASE_TAG}@${BASE_DIGEST}"]
    assert dockerfile.arguments()["BASE_DIGEST"] is None


def test_the_base_is_the_tested_container(dockerfile: Dockerfile) -> None:
    arguments = dockerfile.arguments()
    assert f"{arguments['BASE_IMAGE']}:{arguments['BASE_TAG']}" == versions().container.image


def test_every_variable_is_an_argument(dockerfile: Dockerfile) -> None:
    for name, value in dockerfile.instructions:
        local = set(re.findall(r"for (\w+) in", value)) | BUILT_IN
        for variable in re.findall(r"\$\{(\w+)", value):
            assert variable in dockerfile.arguments() or variable in local, f"{name} {value}"


def test_arguments_of_the_base_are_in_scope_after_it(dockerfile: Dockerfile) -> None:
    names = [name for name, _ in dockerfile.instructions]
    after = names.index("FROM")
    redeclared = {value for name, value in dockerfile.instructions[after:] if name == "ARG"}
    assert {"BASE_IMAGE", "BASE_TAG", "BASE_DIGEST"} <= redeclared


def test_every_copied_file_is_there_and_reaches_the_builder(dockerfile: Dockerfile) -> None:
    ignore = (CONTAINER / ".dockerignore").read_text().split("\n")
    patterns = [line for line in ignore if line and not line.startswith("#")]
    copied = [
        word for value in dockerfile.values("COPY") for word in value.split() if not word.startswith("--")
    ]
    *sources, _ = copied
    assert sources
    for source in sources:
        assert (CONTAINER / source).is_file()
        last = [pattern for pattern in patterns if fnmatch(source, pattern.lstrip("!"))][-1]
        assert last.startswith("!"), source
    assert not any(fnmatch("Dockerfile", pattern.lstrip("!")) for pattern in patterns if pattern[0] == "!")


def test_it_names_no_package_of_its_own(dockerfile: Dockerfile) -> None:
    for script in dockerfile.values("RUN"):
        for command in re.findall(r"(?:dnf|pip) install[^;|]*", script):
            words = shlex.split(command)[2:]
            options = {word for word in words if word.startswith("-")}
            assert set(words) - options <= {"/tmp/held.txt"}, command


def test_it_ends_without_root(dockerfile: Dockerfile) -> None:
    last = dockerfile.values("USER")[-1]
    assert last.isdigit(), "kubelet's runAsNonRoot can tell a number alone"
    assert int(last) > 0


def test_the_health_check_asks_what_the_pods_liveness_asks(dockerfile: Dockerfile) -> None:
    (value,) = dockerfile.values("HEALTHCHECK")
    command = json.loads(value.partition("CMD")[2])
    probe = alive()["httpGet"]
    assert command[-1] == f"http://127.0.0.1:{probe['port']}{probe['path']}"
    assert command[0] == "wget"


def test_it_carries_the_labels_that_say_what_it_is(dockerfile: Dockerfile) -> None:
    labels = dict(re.findall(r'([\w.-]+)="([^"]*)"', " ".join(dockerfile.values("LABEL"))))
    prefix = "org.opencontainers.image."
    assert {f"{prefix}{name}" for name in ("title", "description", "version", "revision")} <= labels.keys()
    assert labels[f"{prefix}base.digest"] == "${BASE_DIGEST}"


def test_the_build_ends_with_the_smoke_test_of_its_base(dockerfile: Dockerfile) -> None:
    *_, last = dockerfile.values("RUN")
    words = shlex.split(last)
    assert words[:2] == ["python3", "/usr/local/share/kvrelay/smoke.py"]
    assert words[-2:] == ["--tag", "${BASE_TAG}"]


def run(script: str, path: Path, **arguments: str) -> subprocess.CompletedProcess[str]:
    """A RUN's script as the Dockerfile's SHELL runs it."""
    blank = {"CA_CERTIFICATE": "", "EXTRA_RPMS": "", "EXTRA_PACKAGES": ""}
    environment = {"PATH": f"{path}:{os.environ['PATH']}", **blank, **arguments}
    command = ["/bin/bash", "-o", "pipefail", "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Stand-ins for dnf and python3 that note how they were called."""
    for name in ("dnf", "python3"):
        tool = tmp_path / name
        tool.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n')
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def calls(tools: Path) -> list[str]:
    return (tools / "calls").read_text().splitlines() if (tools / "calls").exists() else []


@pytest.mark.parametrize("word", ["EXTRA_RPMS", "EXTRA_PACKAGES"])
def test_without_additions_nothing_is_installed(dockerfile: Dockerfile, tools: Path, word: str) -> None:
    assert run(dockerfile.shell_for(word), tools).returncode == 0
    assert calls(tools) == []


@pytest.mark.parametrize(
    ("word", "given", "told"),
    [
        ("EXTRA_RPMS", "jq-1.7.1 nfs-utils", "EXTRA_RPMS: nfs-utils names no version"),
        ("EXTRA_PACKAGES", "lmcache", "EXTRA_PACKAGES: lmcache names no version"),
        ("EXTRA_PACKAGES", "lmcache>=0.5", "EXTRA_PACKAGES: lmcache>=0.5 names no version"),
        ("CA_CERTIFICATE", base64.b64encode(b"no certificate").decode(), "no PEM certificate"),
    ],
)
def test_an_addition_that_is_not_pinned_ends_the_build(
    dockerfile: Dockerfile, tools: Path, word: str, given: str, told: str
) -> None:
    script = dockerfile.shell_for(word).replace("/etc/pki/ca-trust/source/anchors", str(tools))
    result = run(script, tools, **{word: given})
    assert result.returncode == 2
    assert told in result.stderr
    assert calls(tools) == []


def test_additions_may_not_move_what_is_there(dockerfile: Dockerfile, tools: Path) -> None:
    result = run(dockerfile.shell_for("EXTRA_PACKAGES"), tools, EXTRA_PACKAGES="a==1 b[c]==2.0")
    assert result.returncode == 0, result.stderr
    installing = "python3 -m pip install --no-cache-dir --constraint /tmp/held.txt a==1 b[c]==2.0"
    # What the stand-in was asked to list went into held.txt.
    assert calls(tools) == ["python3 -m pip --version", "python3 -m pip list --format=freeze", installing]


def test_system_packages_go_to_dnf_with_their_versions(dockerfile: Dockerfile, tools: Path) -> None:
    script = dockerfile.shell_for("EXTRA_RPMS").replace("/var/cache/dnf", str(tools / "cache"))
    assert run(script, tools, EXTRA_RPMS="jq-1.7.1 nfs-utils-2.5.4").returncode == 0
    assert calls(tools) == ["dnf install -y --setopt=install_weak_deps=False jq-1.7.1 nfs-utils-2.5.4"]


def test_a_certificate_reaches_the_trust_store(dockerfile: Dockerfile, tools: Path) -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    trust = tools / "update-ca-trust"
    trust.write_text(f'#!/bin/sh\necho "update-ca-trust $*" >> {tools}/calls\n')
    trust.chmod(0o755)
    script = dockerfile.shell_for("CA_CERTIFICATE").replace("/etc/pki/ca-trust/source/anchors", str(tools))
    result = run(script, tools, CA_CERTIFICATE=base64.b64encode(pem.encode()).decode())
    assert result.returncode == 0, result.stderr
    assert (tools / "added.pem").read_text() == pem
    assert calls(tools) == ["update-ca-trust extract"]


def test_hadolint_finds_nothing() -> None:
    result = subprocess.run(
        ["hadolint", str(CONTAINER / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")
