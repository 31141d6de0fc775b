"""Parameters of a vision tower, from its config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def vision_parameters(config: Mapping[str, Any], hidden: int) -> int:
    """Parameters of the tower and its projector into the language model of width `hidden`; 0 without one."""
    tower = config.get("vision_config")
    if not isinstance(tower, Mapping):
        return 0
    if "depth" in tower:
        return _qwen(tower)
    if tower.get("model_type") == "pixtral":
        return _pixtral(tower, hidden, config.get("spatial_merge_size", 2))
    return _siglip(tower, hidden)


def _qwen(tower: Mapping[str, Any]) -> int:
    width, inner = tower["hidden_size"], tower["intermediate_size"]
    patch = tower.get("in_channels", 3) * tower["temporal_patch_size"] * tower["patch_size"] ** 2
    embedding = patch * width + width + tower["num_position_embeddings"] * width
    merged = width * tower["spatial_merge_size"] ** 2
    merger = (
        2 * width + merged * merged + merged + merged * tower["out_hidden_size"] + tower["out_hidden_size"]
    )
    return int(embedding + tower["depth"] * _block(width, inner) + merger)


def _siglip(tower: Mapping[str, Any], hidden: int) -> int:
    width, inner = tower["hidden_size"], tower["intermediate_size"]
    patch = tower["patch_size"]
    positions = (tower["image_size"] // patch) ** 2
    embedding = tower.get("num_channels", 3) * patch**2 * width + width + positions * width
    projector = width * hidden + width
    return int(embedding + tower["num_hidden_layers"] * _block(width, inner) + 2 * width + projector)


def _pixtral(tower: Mapping[str, Any], hidden: int, merge: int) -> int:
    width, inner = tower["hidden_size"], tower["intermediate_size"]
    # Gated feed-forward, no biases; the projector merges neighbouring patches first.
    block = 4 * width * width + 3 * width * inner + 2 * width
    embedding = tower.get("num_channels", 3) * tower["patch_size"] ** 2 * width + width
    projector = width + width * merge * merge * width + width * hidden + hidden * hidden
    return int(embedding + tower["num_hidden_layers"] * block + projector)


def _block(width: int, inner: int) -> int:
    """Two norms, fused or separate attention projections and a feed-forward, all with biases."""
    return 4 * width + 4 * width * width + 4 * width + 2 * width * inner + inner + width
