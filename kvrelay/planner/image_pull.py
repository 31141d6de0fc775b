"""How long a node takes to fetch and unpack the container image, with and without pulling its layers in parallel."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.data import versions
from kvrelay.data.reading import load
from kvrelay.settings import Deployment


@dataclass(frozen=True, slots=True)
class ImagePull:
    """The first pull on a fresh node. Units: seconds, gigabytes (10^9 bytes)."""

    mode: str
    """`parallel` or `sequential`, as `image_pull` of a node group."""
    size_gb: float
    parallel: float
    sequential: float

    @classmethod
    def of(cls, deployment: Deployment) -> ImagePull:
        """The pull that the slowest GPU node group of a deployment does."""
        modes = {group.image_pull for group in deployment.gpu_nodes.groups}
        return cls.with_mode("sequential" if "sequential" in modes else "parallel")

    @classmethod
    def with_mode(cls, mode: str) -> ImagePull:
        """The tested container, pulled that way."""
        size, rates = versions().container_size_gb, load("durations.yaml")["image-pull-seconds-per-gb"]
        return cls(mode, size, size * rates["parallel"], size * rates["sequential"])

    @property
    def seconds(self) -> float:
        """As this deployment does it."""
        return self.parallel if self.mode == "parallel" else self.sequential
