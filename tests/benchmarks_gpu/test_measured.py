"""What was counted on GPUs is what kvrelay computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu.model import SMALL_HYBRID_BLOCK, Shape
from benchmarks.gpu.report import DATA

COUNTED = sorted(
    file
    for step in ("parity", "hybrid")
    for file in DATA.glob(f"*/{step}.json")
    if "decode_transfers" in json.loads(file.read_text())
)


def test_some_run_has_counted() -> None:
    assert {file.stem for file in COUNTED} == {"parity", "hybrid"}


@pytest.mark.parametrize("file", COUNTED, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_a_prompts_cache_is_as_many_bytes_as_the_engines_moved(file: Path) -> None:
    found = json.loads(file.read_text())
    if file.stem == "parity":
        shape, block = Shape.of(found["conditions"]["model"]), 16
    elif found["conditions"]["device"] == "cpu":
        shape, block = Shape.small_hybrid(), SMALL_HYBRID_BLOCK
    else:
        shape, block = Shape.part_of_hybrid(), 16
    asked = [
        answer["prompt_tokens"]
        for name, value in found.items()
        if name.startswith("pair")
        for answer in value["answers"]
    ]
    geometry, moved = shape.geometry(block), found["decode_transfers"]
    assert moved["transfers"] == len(asked)
    expected = sum(geometry.transfer_bytes(length) for length in asked)
    assert moved["bytes"] * moved["transfers"] == pytest.approx(expected, rel=1e-9)
