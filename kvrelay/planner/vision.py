"""Parameters of a vision tower, from its config."""

from __future__ import annotations

from kvrelay.planner.fields import Fields


def vision_parameters(config: Fields, hidden: int) -> int:
    """Parameters of the tower and its projector into the language model of width `hidden`; 0 without one.

    Raises ModelConfigError for a tower whose fields are not those of a known one.
    """
    tower = config.part("vision_config")
    if tower is None:
        return 0
    if tower.get("depth") is not None:
        return _qwen(tower)
    if tower.get("model_type") == "pixtral":
        return _pixtral(tower, hidden, config.positive("spatial_merge_size", 2))
    return _siglip(tower, hidden)


def _qwen(tower: Fields) -> int:
    width, out = tower.positive("hidden_size"), tower.positive("out_hidden_size")
    patch = (
        tower.positive("in_channels", 3)
        * tower.positive("temporal_patch_size")
        * tower.positive("patch_size") ** 2
    )
    embedding = patch * width + width + tower.positive("num_position_embeddings") * width
    merged = width * tower.positive("spatial_merge_size") ** 2
    merger = 2 * width + merged * merged + merged + merged * out + out
    return embedding + tower.positive("depth") * _block(width, tower.positive("intermediate_size")) + merger


def _siglip(tower: Fields, hidden: int) -> int:
    width, patch = tower.positive("hidden_size"), tower.positive("patch_size")
    positions = (tower.positive("image_size") // patch) ** 2
    embedding = tower.positive("num_channels", 3) * patch**2 * width + width + positions * width
    blocks = tower.positive("num_hidden_layers") * _block(width, tower.positive("intermediate_size"))
    projector = width * hidden + width
    return embedding + blocks + 2 * width + projector


def _pixtral(tower: Fields, hidden: int, merge: int) -> int:
    width, inner = tower.positive("hidden_size"), tower.positive("intermediate_size")
    # Gated feed-forward, no biases; the projector merges neighbouring patches first.
    block = 4 * width * width + 3 * width * inner + 2 * width
    embedding = tower.positive("num_channels", 3) * tower.positive("patch_size") ** 2 * width + width
    projector = width + width * merge * merge * width + width * hidden + hidden * hidden
    return embedding + tower.positive("num_hidden_layers") * block + projector


def _block(width: int, inner: int) -> int:
    """Two norms, fused or separate attention projections and a feed-forward, all with biases."""
    return 4 * width + 4 * width * width + 4 * width + 2 * width * inner + inner + width
