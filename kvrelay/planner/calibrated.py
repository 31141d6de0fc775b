"""The planner's figures beside measured ones: what docs/planner.md prints and the tests hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from kvrelay.data import instance_type
from kvrelay.data.performance import calibration
from kvrelay.data.reading import load
from kvrelay.planner.engine import Engine
from kvrelay.planner.model_config import known_shape
from kvrelay.planner.roofline import decode_step, prefill_seconds
from kvrelay.planner.serving import Latency, plain, prefill_decode
from kvrelay.planner.transfer import descriptors, handover_seconds, transfer
from kvrelay.planner.workload import Requests, Workload

H200 = "measurements/h200-qwen3-8b.yaml"
_LONG = (8192, 12288, 16384)
_CHAT = (512, 128)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure and the planner's."""

    cell: str
    system: str
    what: str
    unit: str
    measured: float
    planned: float

    @property
    def error(self) -> float:
        """Relative to what was measured; positive when the planner is above it."""
        return self.planned / self.measured - 1


def engine_measured() -> Engine:
    """The engine of the H200 measurements."""
    content = load(H200)
    return Engine(known_shape(content["model"]), instance_type(content["instance"]), max_model_len=32768)


def rows() -> list[Row]:
    """Every figure of the H200 measurements."""
    return [*_alone(), *_parts(), *_loaded()]


def typical_error(found: list[Row]) -> float:
    """The median of the errors, whichever way they go."""
    return median(abs(row.error) for row in found)


def dynamo_ttft(fabric: str) -> float:
    """Seconds to the first token of Dynamo's case on p5.48xlarge, alone: Llama-3.1-8B, 8,000 tokens in."""
    engine = Engine(known_shape("meta-llama/Llama-3.1-8B-Instruct"), instance_type("p5.48xlarge"))
    alone = Workload((Requests(1e-4, 8000, 100),))
    return prefill_decode(engine, engine, 1, 1, fabric, alone).ttft[50]


def _alone() -> Iterator[Row]:
    engine = engine_measured()
    for entry in load(H200)["unloaded_ttft_ms"]:
        tokens = entry["prompt"]
        ordinary = (
            calibration().request_seconds + prefill_seconds(engine, tokens) + decode_step(engine, tokens)(1)
        )
        # Alone, the block pool is fresh: few descriptors, and no decode to stand still.
        apart = ordinary + handover_seconds(tokens) + transfer(engine, tokens, load(H200)["fabric"]).seconds
        cell = f"alone, {tokens} tokens"
        yield Row(cell, "plain", "TTFT", "ms", entry["plain"], ordinary * 1e3)
        yield Row(cell, "prefill/decode", "TTFT", "ms", entry["prefill_decode"], apart * 1e3)


def _parts() -> Iterator[Row]:
    engine, content = engine_measured(), load(H200)
    speed = _LONG[1] / prefill_seconds(engine, _LONG[1])
    yield Row(
        "one prefill GPU", "prefill/decode", "prefill", "tokens/s", content["prefill_tokens_per_s"], speed
    )
    for name, measured in content["descriptors"].items():
        tokens = int(name.removeprefix("tokens_"))
        yield Row(
            f"{tokens} tokens", "prefill/decode", "descriptors", "", measured, descriptors(engine, tokens)
        )


def _loaded() -> Iterator[Row]:
    for entry in load(H200)["loaded"]:
        latency = run(entry)
        system = "plain" if entry["system"] == "plain" else "prefill/decode"
        cell = f"{entry['chat_per_s']} chat/s + {entry['long_per_s']} long/s"
        for each, measured in entry["ttft"].items():
            yield Row(cell, system, f"TTFT p{each}", "ms", measured, latency.ttft[each] * 1e3)
        for each, measured in entry["itl"].items():
            yield Row(cell, system, f"ITL p{each}", "ms", measured, latency.itl[each] * 1e3)


def run(entry: Mapping[str, Any]) -> Latency:
    """The planner's answer for one cell of the measured loads."""
    kinds = [Requests(entry["chat_per_s"], *_CHAT)]
    kinds += [Requests(entry["long_per_s"] / len(_LONG), tokens, 64) for tokens in _LONG]
    engine, workload = replace(engine_measured(), max_num_batched_tokens=8192), Workload(tuple(kinds))
    if entry["system"] == "plain":
        return plain(engine, 2, workload)
    return prefill_decode(engine, engine, 1, 1, load(H200)["fabric"], workload)
