"""How fast data moves and engines run, beside data sheets: fabrics and calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from kvrelay.data.reading import load


@dataclass(frozen=True, slots=True)
class Fabric:
    """A road for the KV cache. `cap_gb_per_s`: 10^9 bytes a second that software reaches at most."""

    key: str
    label: str
    line_share: float | None
    """Share of the network's speed that it can use; None where it leaves the network aside."""
    cap_gb_per_s: float
    measured: bool
    source: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """Shares of data-sheet speed, and seconds that no data sheet names."""

    compute_share: float
    bandwidth_share: float
    step_seconds: float
    request_seconds: float
    handover_seconds: float
    handover_token_seconds: float
    posting_seconds: float
    descriptor_seconds: float
    tensor_parallel_share: float


@cache
def fabrics() -> Mapping[str, Fabric]:
    """Every fabric by its key, fastest of the network's first."""
    return {
        key: Fabric(
            key,
            entry["label"],
            entry.get("line_share"),
            entry["cap_gb_per_s"],
            entry["measured"],
            entry["source"],
        )
        for key, entry in load("fabrics.yaml").items()
    }


@cache
def calibration() -> Calibration:
    """The constants in use."""
    content = load("calibration.yaml")
    return Calibration(**{name: float(content[name]) for name in Calibration.__slots__})
