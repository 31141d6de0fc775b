"""What the plan says of the KV caches that travel, as the proof's core asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvrelay.ops.engine_metrics import EngineCounts
from kvrelay.ops.proof import KvGeometry
from kvrelay.planner.cache import CacheShape
from kvrelay.planner.engine import Engine


@dataclass(frozen=True, slots=True)
class PlannedGeometry(KvGeometry):
    """One GPU's part of an engine's cache: each GPU pulls its own, in a transfer of its own."""

    cache: CacheShape

    def transfer_bytes(self, tokens: int) -> int:
        """Bytes of a prompt's cache on one GPU, whole blocks, windows and states included."""
        return self.cache.sequence(tokens)


def geometry_of(engine: Engine) -> PlannedGeometry:
    """Of an engine as the planner sees it."""
    cache = engine.cache
    return PlannedGeometry(cache.token, cache.block_tokens, cache)


def of_one_gpu(counts: EngineCounts, gpus: int) -> EngineCounts:
    """Transfers as if one GPU had made them: a prompt's cache is as many transfers as the engine has GPUs."""
    buckets = {bound: count / gpus for bound, count in counts.transfer_buckets.items()}
    return replace(counts, transfers=counts.transfers / gpus, transfer_buckets=buckets)
