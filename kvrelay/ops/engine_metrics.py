"""What vLLM's engines say of themselves, read from Prometheus pages: vLLM's own, or Ray's of a node."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import httpx

from kvrelay.ops.endpoint import EndpointError

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class EngineRole(StrEnum):
    PREFILL = "prefill"
    DECODE = "decode"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a Prometheus page. Names are without Ray's prefix, and with _ where vLLM has a colon."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(slots=True)
class EngineCounts:
    """The counters of all engines of a role, added up. Lists are indexed like `byte_bounds`."""

    prompt_tokens: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Prompt tokens by source: local_compute, local_cache_hit, external_kv_transfer."""
    transfers: float = 0
    transfer_buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))
    """Transfers of at most so many bytes (cumulative), by that bound."""
    failed_transfers: float = 0
    failed_notifications: float = 0
    expired_requests: float = 0
    cache_usage: float = 0
    """The fullest engine's share of KV blocks in use, 0 to 1: a gauge, not a counter."""
    running: float = 0
    waiting: float = 0

    def since(self, before: EngineCounts) -> EngineCounts:
        """What came since `before`; gauges stay as they are now."""
        tokens = {
            source: count - before.prompt_tokens.get(source, 0)
            for source, count in self.prompt_tokens.items()
        }
        buckets = {
            bound: count - before.transfer_buckets.get(bound, 0)
            for bound, count in self.transfer_buckets.items()
        }
        return EngineCounts(
            tokens,
            self.transfers - before.transfers,
            buckets,
            self.failed_transfers - before.failed_transfers,
            self.failed_notifications - before.failed_notifications,
            self.expired_requests - before.expired_requests,
            self.cache_usage,
            self.running,
            self.waiting,
        )

    def transfers_by_bound(self) -> dict[float, int]:
        """How many transfers fell into each bucket, by the bucket's upper bound in bytes; empty ones left out."""
        below, counts = 0.0, {}
        for bound in sorted(self.transfer_buckets):
            count = self.transfer_buckets[bound] - below
            below = self.transfer_buckets[bound]
            if round(count):
                counts[bound] = round(count)
        return counts


def scrape(urls: Iterable[str]) -> list[Sample]:
    """All samples of all pages. Raises EndpointError, one line, when a page can't be read."""
    samples: list[Sample] = []
    for url in urls:
        try:
            response = httpx.get(url, timeout=30.0, trust_env=False)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise EndpointError(f"the engines' metrics at {url} can't be read: {error}") from None
        samples += parse(response.text)
    return samples


def parse(text: str) -> list[Sample]:
    """The samples of one Prometheus page."""
    samples = []
    for line in text.splitlines():
        if match := _SAMPLE.match(line):
            name, labels, value = match.groups()
            plain = name.replace(":", "_").removeprefix("ray_")
            samples.append(Sample(plain, dict(_LABEL.findall(labels or "")), float(value)))
    return samples


def engine_counts(samples: Iterable[Sample]) -> dict[EngineRole, EngineCounts]:
    """Counters by role. Ray Serve's own metrics say which replica belongs to which deployment."""
    samples = list(samples)
    deployments = {
        sample.labels["replica"]: sample.labels["deployment"]
        for sample in samples
        if sample.name.startswith("serve_") and "replica" in sample.labels and "deployment" in sample.labels
    }
    counts: dict[EngineRole, EngineCounts] = defaultdict(EngineCounts)
    for sample in samples:
        if sample.name.startswith("vllm_"):
            replica = sample.labels.get("ReplicaId", "")
            _add(counts[_role(deployments.get(replica, ""))], sample)
    return dict(counts)


def _role(deployment: str) -> EngineRole:
    name = deployment.partition(":")[0].lower()
    return EngineRole(name) if name in ("prefill", "decode") else EngineRole.PLAIN


def _add(counts: EngineCounts, sample: Sample) -> None:
    name, value = sample.name.removesuffix("_total"), sample.value
    if name == "vllm_prompt_tokens_by_source":
        counts.prompt_tokens[sample.labels.get("source", "")] += value
    elif name == "vllm_nixl_bytes_transferred_count":
        counts.transfers += value
    elif name == "vllm_nixl_bytes_transferred_bucket":
        bound = float(sample.labels["le"].replace("+Inf", "inf"))
        counts.transfer_buckets[bound] += value
    elif name == "vllm_nixl_num_failed_transfers":
        counts.failed_transfers += value
    elif name == "vllm_nixl_num_failed_notifications":
        counts.failed_notifications += value
    elif name == "vllm_nixl_num_kv_expired_reqs":
        counts.expired_requests += value
    elif name == "vllm_kv_cache_usage_perc":
        counts.cache_usage = max(counts.cache_usage, value)
    elif name == "vllm_num_requests_running":
        counts.running += value
    elif name == "vllm_num_requests_waiting":
        counts.waiting += value


def bucket_of(size: float, bounds: Iterable[float]) -> float:
    """The upper bound of the bucket that a value of `size` falls into."""
    return min((bound for bound in bounds if size <= bound), default=math.inf)
