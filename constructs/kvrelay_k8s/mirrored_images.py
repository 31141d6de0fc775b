"""Container images pulled from the account's registry: one place that rewrites them, whichever chart names them."""

from __future__ import annotations

from typing import Any

from kvrelay.settings import ImageMirror


def with_mirrored_images(value: Any, mirror: ImageMirror) -> Any:
    """The object with each container's image as nodes pull it."""
    if isinstance(value, list):
        return [with_mirrored_images(each, mirror) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: mirror.reference(each)
        if key == "image" and isinstance(each, str)
        else with_mirrored_images(each, mirror)
        for key, each in value.items()
    }
