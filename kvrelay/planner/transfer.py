"""How long a prompt's KV cache is on the road from prefill to decode, by fabric."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.data import InstanceType
from kvrelay.data.performance import Fabric, calibration, fabrics
from kvrelay.planner.engine import Engine

NETWORK_FABRICS = ("efa-gpudirect", "efa-staged", "tcp", "ucx-emulated")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One prompt over one fabric."""

    fabric: Fabric
    bytes: int
    gb_per_s: float
    seconds: float


def fabric_of(instance: InstanceType) -> str:
    """The fabric that LIBFABRIC gives on this node; TCP where it has no EFA."""
    if not instance.efa:
        return "tcp"
    return "efa-gpudirect" if instance.gpudirect_rdma else "efa-staged"


def possible_fabrics(instance: InstanceType) -> list[str]:
    """The fabrics that a wrong or right setting can end on, on this node."""
    if not instance.efa:
        return ["tcp"]
    return [fabric_of(instance), "tcp", "ucx-emulated"]


def transfer(engine: Engine, tokens: int, fabric_key: str) -> Transfer:
    """A prompt of so many tokens: all GPUs of the engine send their part side by side."""
    size = prompt_bytes(engine, tokens)
    fabric = fabrics()[fabric_key]
    rate = rate_gb_per_s(engine, fabric)
    return Transfer(fabric, size, rate, size / (rate * 1e9))


def prompt_bytes(engine: Engine, tokens: int) -> int:
    """Bytes that travel of a prompt's cache and states, to all GPUs of the engine."""
    return engine.cache.travels(tokens) * engine.tensor_parallel


def rate_gb_per_s(engine: Engine, fabric: Fabric) -> float:
    """10^9 bytes a second: the engine's share of the node's network, or less where software binds."""
    if fabric.line_share is None:
        return fabric.cap_gb_per_s
    assert engine.instance.gpu is not None
    share = engine.tensor_parallel / engine.instance.gpu.count
    line = engine.instance.network_gbps / 8 * fabric.line_share * share
    return min(line, fabric.cap_gb_per_s)


def descriptors(engine: Engine, tokens: int) -> int:
    """NIXL descriptors of one prompt once the block pool has cycled: one a block and layer."""
    blocks = -(-tokens // engine.cache.block_tokens) + 1
    return blocks * engine.shape.layers


def posting_seconds(engine: Engine, tokens: int) -> float:
    """How long decode stands still while it posts the reads of one prompt."""
    return calibration().posting_seconds + descriptors(engine, tokens) * calibration().descriptor_seconds


def handover_seconds(tokens: int) -> float:
    """What handing a prompt from prefill to decode costs beside the transfer itself."""
    return calibration().handover_seconds + tokens * calibration().handover_token_seconds
