"""NIXL alone between two processes, without an engine: how long a cache of so many pieces takes, and over what.

    python -m benchmarks.gpu.transport [--device cuda:0] [--peer cuda:1] [--loads 75:36/1188,1770:36/27000]

Prints one JSON object a line. One process holds a buffer with a pattern; the other reads it in pieces that do not lie
beside each other, so that nothing merges them, and compares what came. What UCX takes is decided by its environment,
such as UCX_TLS and UCX_CUDA_IPC_ENABLE_GET_ZCOPY.
"""

# ruff: noqa: T201 - its stdout is its interface
# mypy: disable-error-code="import-not-found,import-untyped,no-any-unimported"

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from multiprocessing.connection import Connection
from typing import Any

TRIES = 5
# Slow roads show soon how slow they are.
_PATIENCE_SECONDS = 3.0


def descriptors(base: int, total: int, pieces: int, device: int) -> list[tuple[int, int, int]]:
    """`pieces` equal pieces of `total` bytes in a buffer of twice that, every second one: (address, bytes, device)."""
    each = total // pieces
    return [(base + 2 * number * each, each, device) for number in range(pieces)]


def hold(connection: Connection, device: str, total: int) -> None:
    """The side that prefill has: registers its buffer and waits."""
    agent, buffer = _agent("holder"), _buffer(device, 2 * total)
    buffer.copy_(_pattern(buffer))
    registered = agent.register_memory(buffer)
    connection.send((agent.get_agent_metadata(), buffer.data_ptr()))
    connection.recv()
    agent.deregister_memory(registered)


def read(connection: Connection, device: str, peer: str, loads: list[tuple[int, int]]) -> None:
    """The side that decode has: reads and times."""
    import torch

    agent, buffer = _agent("reader"), _buffer(device, 2 * max(total for total, _ in loads))
    registered = agent.register_memory(buffer)
    metadata, base = connection.recv()
    name = agent.add_remote_agent(metadata)
    memory = "VRAM" if device.startswith("cuda") else "DRAM"
    wanted = _pattern(buffer)
    for total, count in loads:
        mine = agent.get_xfer_descs(descriptors(buffer.data_ptr(), total, count, _index(device)), memory)
        theirs = agent.get_xfer_descs(descriptors(base, total, count, _index(peer)), memory)
        posts: list[float] = []
        wholes: list[float] = []
        while len(wholes) < TRIES and sum(wholes) < _PATIENCE_SECONDS:
            buffer.zero_()
            if device.startswith("cuda"):
                torch.cuda.synchronize()
            handle = agent.initialize_xfer("READ", mine, theirs, name, b"")
            began = time.perf_counter()
            state = agent.transfer(handle)
            posts.append(time.perf_counter() - began)
            while state == "PROC":
                state = agent.check_xfer_state(handle)
            wholes.append(time.perf_counter() - began)
            agent.release_xfer_handle(handle)
            if state != "DONE":
                raise SystemExit(f"the transfer ended in the state {state}")
        each = total // count
        moved = buffer[: 2 * count * each].view(count, 2 * each)
        right = bool((moved[:, :each] == wanted[: 2 * count * each].view(count, 2 * each)[:, :each]).all())
        whole = statistics.median(wholes)
        print(
            json.dumps(
                {
                    "pieces": count,
                    "bytes": count * each,
                    "post_ms": round(statistics.median(posts) * 1e3, 3),
                    "whole_ms": round(whole * 1e3, 3),
                    "first_ms": round(wholes[0] * 1e3, 3),
                    "gb_per_s": round(count * each / whole / 1e9, 2),
                    "right": right,
                }
            ),
            flush=True,
        )
    agent.deregister_memory(registered)


def loads_of(text: str) -> list[tuple[int, int]]:
    """`75:36/1188,1770:36` as pairs of bytes and pieces."""
    loads = (load.partition(":") for load in text.split(","))
    return [
        (round(float(size) * 1e6), int(count)) for size, _, counts in loads for count in counts.split("/")
    ]


def _agent(name: str) -> Any:
    from nixl._api import nixl_agent, nixl_agent_config

    return nixl_agent(name, nixl_agent_config(backends=["UCX"]))


def _buffer(device: str, size: int) -> Any:
    import torch

    return torch.zeros(size, dtype=torch.uint8, device=device)


def _pattern(buffer: Any) -> Any:
    import torch

    size = buffer.numel()
    return torch.arange(251, device=buffer.device, dtype=torch.uint8).repeat(size // 251 + 1)[:size]


def _index(device: str) -> int:
    return int(device.partition(":")[2] or 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0", help="the reader's (default: %(default)s)")
    parser.add_argument("--peer", help="the holder's (default: the reader's)")
    parser.add_argument(
        "--loads", default="75:36/300/1188", help="10^6 bytes:pieces/pieces,... (%(default)s)"
    )
    asked = parser.parse_args()
    loads, peer = loads_of(asked.loads), asked.peer or asked.device
    spawning = multiprocessing.get_context("spawn")
    there, here = spawning.Pipe()
    holder = spawning.Process(target=hold, args=(there, peer, max(total for total, _ in loads)), daemon=True)
    holder.start()
    read(here, asked.device, peer, loads)
    here.send("done")
    holder.join(20)
    if holder.is_alive():
        holder.kill()


if __name__ == "__main__":
    main()
