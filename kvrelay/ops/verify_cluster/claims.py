"""What a cluster must show of how it hands KV caches over, judged from what was read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvrelay.ops.proof import Verdict
from kvrelay.ops.verify_cluster.readings import Backends, Devices, Process, Traffic, Weights

EFA_RESOURCE = "vpc.amazonaws.com/efa"
# EFA counts packets with their headers, handshakes and repeats too.
_LEAST, _MOST = 0.85, 1.5
_BESIDE = 1 << 20
_CACHED_S = 30.0


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker pod as the API shows it; `role` is its worker group's name."""

    name: str
    role: str
    node: str
    container: str
    efa: int
    ready: bool

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> Worker:
        """From the pod's JSON."""
        labels, spec = pod["metadata"].get("labels") or {}, pod["spec"]
        container = spec["containers"][0]
        limits = (container.get("resources") or {}).get("limits") or {}
        conditions = (pod.get("status") or {}).get("conditions") or ()
        return cls(
            pod["metadata"]["name"],
            labels.get("ray.io/group", ""),
            spec.get("nodeName", ""),
            container["name"],
            int(limits.get(EFA_RESOURCE, 0)),
            any(each["type"] == "Ready" and each["status"] == "True" for each in conditions),
        )


def on_distinct_nodes(prefill: Sequence[Worker], decode: Sequence[Worker]) -> Verdict:
    """No node carries both roles: EFA does not carry a node's traffic to itself."""
    by_role = {"prefill": {each.node for each in prefill}, "decode": {each.node for each in decode}}
    shared = by_role["prefill"] & by_role["decode"]
    nowhere = [each.name for each in (*prefill, *decode) if not each.node]
    saw = "; ".join(f"{role} on {', '.join(sorted(nodes)) or 'no node'}" for role, nodes in by_role.items())
    held = not shared and not nowhere and all(by_role.values())
    return Verdict("prefill and decode run on distinct nodes", held, saw)


def efa_allocated(workers: Sequence[Worker], devices: Mapping[str, Devices]) -> Verdict:
    """Each worker was given EFA by the device plugin, and sees a port that is up.

    Both are asked: a privileged pod sees the node's devices whether it was given one or not.
    """
    faults = []
    for worker in workers:
        seen = devices[worker.name]
        if not worker.efa:
            faults.append(f"{worker.name} asks for no {EFA_RESOURCE}")
        elif not seen.nodes:
            faults.append(f"{worker.name} sees no /dev/infiniband/uverbs")
        elif len(seen.active) < worker.efa:
            states = ", ".join(f"{name} {state}" for name, state in seen.ports.items()) or "no port"
            faults.append(f"{worker.name} has {worker.efa} allocated, active: {len(seen.active)} ({states})")
    given = sum(worker.efa for worker in workers)
    saw = "; ".join(faults) or f"{given} allocated to {len(workers)} workers, every port active"
    return Verdict("every worker has its EFA devices", not faults and bool(workers), saw)


def backend_is_libfabric(backends: Mapping[str, Backends]) -> Verdict:
    """NIXL made a LIBFABRIC backend in every worker, and no other: with UCX the cache goes over TCP, unsaid."""
    faults = []
    for name, seen in backends.items():
        if not seen.instantiated and not seen.failed:
            faults.append(f"{name}: Ray's logs name no NIXL backend")
        elif "LIBFABRIC" not in seen.instantiated:
            made = ", ".join(sorted(seen.instantiated)) or "none"
            faults.append(f"{name}: {made} was made, not LIBFABRIC{_also(seen)}")
        elif others := sorted(seen.instantiated - {"LIBFABRIC"}):
            faults.append(f"{name}: beside LIBFABRIC also {', '.join(others)}")
    saw = "; ".join(faults) or f"LIBFABRIC in each of {len(backends)} workers"
    return Verdict("NIXL's backend is LIBFABRIC", not faults and bool(backends), saw)


def _also(seen: Backends) -> str:
    return f" ({'; '.join(seen.failed)})" if seen.failed else ""


def libfabric_holds_efa(processes: Mapping[str, Sequence[Process]]) -> Verdict:
    """In every worker a process has the plugin, libfabric and an EFA device in its memory.

    NIXL maps every plugin that loads, used or not; only an opened EFA device shows which one is at work.
    """
    faults, found = [], []
    for name, seen in processes.items():
        with_plugin = [each for each in seen if each.has("libplugin_LIBFABRIC") and each.has("libfabric.so")]
        holders = [each for each in with_plugin if each.has("/dev/infiniband/uverbs")]
        if holders:
            found += [f"{each.name} {each.pid} in {name}" for each in holders]
        elif with_plugin:
            first = with_plugin[0]
            faults.append(f"{name}: {first.name} {first.pid} has libfabric mapped, but no EFA device")
        else:
            faults.append(f"{name}: no process has NIXL's LIBFABRIC plugin and libfabric mapped")
    return Verdict(
        "libfabric is loaded and holds an EFA device",
        not faults and bool(processes),
        "; ".join(faults or found),
    )


def bytes_over_efa(expected: int, prefill: Sequence[Traffic], decode: Sequence[Traffic]) -> Verdict:
    """EFA's ports carried the known prompts' caches: out of prefill's nodes, into decode's."""
    claim = "the KV cache went over EFA"
    blind = sum(len(each.samples) < 2 for each in (*prefill, *decode))
    if blind or not prefill or not decode:
        return Verdict(
            claim, False, f"{blind} of {len(prefill) + len(decode)} workers see no EFA port's counters"
        )
    sent, received = sum(each.sent for each in prefill), sum(each.received for each in decode)
    held = all(expected * _LEAST <= each <= expected * _MOST + _BESIDE for each in (sent, received))
    saw = f"{expected:,} bytes of cache expected; prefill sent {sent:,}, decode received {received:,}"
    return Verdict(claim, held, saw)


def faster_than_tcp(decode: Sequence[Traffic], planned: float, tcp: float) -> Verdict:
    """The cache came in faster than TCP's one flow could bring it. Rates in 10^9 bytes a second."""
    claim = "the KV cache moves faster than over TCP"
    rates = [rate for each in decode if (rate := each.gb_per_s) is not None]
    if not rates:
        return Verdict(claim, False, f"too little moved to tell a speed; the plan's is {planned:.2f} GB/s")
    saw = f"{max(rates):.2f} GB/s while it moved; the plan's {planned:.2f}, TCP's {tcp:.2f} at most"
    return Verdict(claim, max(rates) > tcp, saw)


def weights_were_cached(worker: str, weights: Weights, ready_s: float) -> Verdict:
    """A restarted worker found its weights on the node."""
    claim = "a restarted worker finds its weights in the cache"
    if weights.loading_s is None:
        return Verdict(claim, False, f"{worker}: the logs don't say how long the weights took")
    held = weights.downloading_s is None and weights.loading_s <= _CACHED_S
    fetched = (
        "nothing fetched" if weights.downloading_s is None else f"{weights.downloading_s:.1f} s of fetching"
    )
    saw = f"{worker}: weights loaded in {weights.loading_s:.1f} s, {fetched}; ready after {ready_s:.0f} s"
    return Verdict(claim, held, saw)
