"""What a container image's reference tells."""

from __future__ import annotations

import re

from kvrelay.data import UnknownNameError, container_versions

_RAY_PROJECT = re.compile(r"(?:[\w.:-]+/){0,8}rayproject/ray[a-z-]*:(\d{1,3}\.\d{1,3}\.\d{1,3})(?:[.-].*)?")
_AWS = re.compile(r".*/ray:(serve-llm-[\w.-]+)")
_MOVING = re.compile(r"latest|nightly|main|master|dev|stable|edge")


def ray_version(image: str) -> str | None:
    """The Ray version in an image of the Ray project or AWS, such as `2.58.0`; None when it can't be told.

    A copy in a registry of your own counts, under whatever path it lies there.
    """
    if match := _RAY_PROJECT.fullmatch(image):
        return match[1]
    if match := _AWS.fullmatch(image):
        try:
            return container_versions(match[1]).ray
        except UnknownNameError:
            return None
    return None


def is_pinned(image: str) -> bool:
    """Whether the reference names one image for good: a digest, or a tag that is no channel."""
    if "@sha256:" in image:
        return True
    tag = image.rpartition("/")[2].partition(":")[2]
    if _AWS.fullmatch(image) and not re.search(r"-v\d", tag):
        return False
    return bool(tag) and not _MOVING.match(tag)
