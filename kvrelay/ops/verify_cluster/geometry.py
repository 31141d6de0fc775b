"""What the plan says of the KV caches that travel, as the proof's core asks for it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvrelay.ops.engine_metrics import EngineCounts
from kvrelay.ops.proof import KvGeometry
from kvrelay.planner.cache import CacheShape


@dataclass(frozen=True, slots=True)
class PlannedGeometry(KvGeometry):
    """One GPU's part of an engine's cache: each GPU pulls its own, in a transfer of its own."""

    cache: CacheShape

    @classmethod
    def of(cls, cache: CacheShape) -> PlannedGeometry:
        """Of a cache as the planner sees it."""
        return cls(cache.token, cache.block_tokens, cache)

    def transfer_bytes(self, tokens: int) -> int:
        """Bytes of a prompt's cache that come to one GPU."""
        return self.cache.travels(tokens)


def of_one_gpu(counts: EngineCounts, gpus: int) -> EngineCounts:
    """Transfers as if one GPU had made them: a prompt's cache is as many transfers as the engine has GPUs."""
    buckets = {bound: count / gpus for bound, count in counts.transfer_buckets.items()}
    return replace(counts, transfers=counts.transfers / gpus, transfer_buckets=buckets)
