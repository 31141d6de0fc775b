"""Versions that go together: container, Ray, vLLM, NIXL, operator, plugins, add-ons.

They stand in container/pins.yaml, and there alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvrelay.data.reading import load
from kvrelay.data.unknown import unknown_name

_PINS = "pins.yaml"


@dataclass(frozen=True, slots=True)
class ContainerVersions:
    """What a tag of AWS's Ray LLM container holds."""

    tag: str
    ray: str
    vllm: str
    nixl: str
    pytorch: str
    cuda: str
    python: str
    efa_installer: str

    @property
    def image(self) -> str:
        """The public image, with its tag."""
        return f"{load(_PINS)['container']['repository']}:{self.tag}"


@dataclass(frozen=True, slots=True)
class Versions:
    """Everything that is pinned, by name. Images are whole references; add-ons are for `kubernetes`."""

    kubernetes: str
    container: ContainerVersions
    """The tag that this release is tested with."""
    container_size_gb: float
    """Gigabytes (10^9 bytes) of it that a node fetches."""
    kuberay: str
    kuberay_image: str
    nvidia_device_plugin: str
    nvidia_device_plugin_image: str
    efa_device_plugin: str
    efa_device_plugin_chart: str
    efa_device_plugin_repository: str
    """Path in the EKS registry: `<registry>/<this>:<efa_device_plugin>`."""
    eks_registry_account: str
    """The account whose ECR holds EKS's images in most commercial regions."""
    eks_addons: Mapping[str, str]
    """Add-on name to the version EKS installs by default for `kubernetes`."""


@cache
def versions() -> Versions:
    """The pinned versions. Raises nothing: the file ships with the package and is tested."""
    content = load(_PINS)
    nvidia, efa = content["nvidia_device_plugin"], content["efa_device_plugin"]
    return Versions(
        kubernetes=content["kubernetes"],
        container=container_versions(content["container"]["tested"]),
        container_size_gb=content["container"]["size_gb"],
        kuberay=content["kuberay"]["version"],
        kuberay_image=f"{content['kuberay']['repository']}:v{content['kuberay']['version']}",
        nvidia_device_plugin=nvidia["version"],
        nvidia_device_plugin_image=f"{nvidia['repository']}:v{nvidia['version']}",
        efa_device_plugin=efa["version"],
        efa_device_plugin_chart=efa["chart"],
        efa_device_plugin_repository=efa["repository"],
        eks_registry_account=content["eks_registry_account"],
        eks_addons=content["eks_addons"]["versions"],
    )


def container_versions(tag: str) -> ContainerVersions:
    """What the container of that tag holds. Raises UnknownNameError for a tag that was never looked into."""
    containers: Mapping[str, Mapping[str, Any]] = load(_PINS)["container"]["tags"]
    if tag not in containers:
        raise unknown_name("container tag", tag, containers, "container/pins.yaml")
    entry = containers[tag]
    return ContainerVersions(tag=tag, **{name: entry[name] for name in ContainerVersions.__slots__[1:]})


def known_container_tags() -> tuple[str, ...]:
    """The container tags whose content is known."""
    return tuple(load(_PINS)["container"]["tags"])
