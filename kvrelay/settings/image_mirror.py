"""Where nodes pull each container image from: its own registry, or the account's ECR."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kvrelay.data import versions

if TYPE_CHECKING:
    from kvrelay.settings.deployment import Deployment

PULL_THROUGH = {"public.ecr.aws": "ecr", "quay.io": "quay"}
"""Registries that ECR caches without credentials, to the last part of their rule's prefix.
https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-creating-rule.html
"""
LONGEST_PULL_THROUGH_NAME = 25
"""A rule's prefix has 30 characters at most, and begins with the deployment's name."""

_ECR = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")


class ImageReference(NamedTuple):
    """`registry/repository:tag` or `registry/repository@digest` in its parts."""

    registry: str
    repository: str
    reference: str
    """The tag, or the digest with its `sha256:`."""

    def __str__(self) -> str:
        mark = "@" if self.reference.startswith("sha256:") else ":"
        return f"{self.registry}/{self.repository}{mark}{self.reference}"


def split_image(image: str) -> ImageReference:
    """The parts of a whole reference, as `serving.image` and the pinned images are."""
    registry, _, rest = image.partition("/")
    repository, _, reference = rest.partition("@") if "@" in rest else rest.rpartition(":")
    return ImageReference(registry, repository, reference)


@dataclass(frozen=True)
class ImageMirror:
    """The account's registry as it stands for others. Without a mirror, images keep their references."""

    mode: str
    name: str
    """The deployment's: every repository's name begins with it."""
    registry: str
    images: tuple[str, ...]
    """All that the deployment's pods run and the mirror can hold; EKS's own images lie in ECR anyway."""

    @classmethod
    def of(cls, deployment: Deployment) -> ImageMirror:
        """The mirror that `images.mirror` asks for."""
        suffix = "amazonaws.com.cn" if deployment.region.startswith("cn-") else "amazonaws.com"
        registry = f"{deployment.account}.dkr.ecr.{deployment.region}.{suffix}"
        pinned, mode = versions(), deployment.images.mirror
        run = (deployment.serving.image, pinned.kuberay_image, pinned.nvidia_device_plugin_image)
        return cls(mode, deployment.name, registry, tuple(each for each in run if _can_hold(mode, each)))

    def holds(self, image: str) -> bool:
        """Whether nodes pull this image from the mirror."""
        return image in self.images

    def repository(self, image: str) -> str:
        """The mirror's repository for an image that it holds."""
        upstream = split_image(image)
        if self.mode == "ecr":
            return f"{self.name}/{upstream.repository}"
        return f"{self.prefix(upstream.registry)}/{upstream.repository}"

    def prefix(self, upstream: str) -> str:
        """The prefix of the pull-through rule for a registry."""
        return f"{self.name}/{PULL_THROUGH[upstream]}"

    def reference(self, image: str) -> str:
        """What nodes pull for `image`."""
        if not self.holds(image):
            return image
        return str(ImageReference(self.registry, self.repository(image), split_image(image).reference))


def _can_hold(mode: str, image: str) -> bool:
    """Never an image that lies in some account's ECR already."""
    upstream = split_image(image).registry
    if mode == "none" or _ECR.fullmatch(upstream):
        return False
    return mode == "ecr" or upstream in PULL_THROUGH
