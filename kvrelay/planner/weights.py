"""Bytes of a model's weights, by how they are stored and over how many GPUs they are split."""

from __future__ import annotations

from kvrelay.planner.parameters import Parameters, count
from kvrelay.planner.shape import ModelShape

BITS = {
    "bf16": 16.0,
    # One scale for a block of 128 x 128, or for a channel: under 0.02 bits a number.
    "fp8": 8.0,
    "int8": 8.0,
    # Groups of 128 share a 16-bit scale and a 4-bit zero point.
    "awq": 4 + 20 / 128,
    "gptq": 4 + 20 / 128,
    # Groups of 32 share an 8-bit scale. https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    "mxfp4": 4 + 8 / 32,
}
"""Bits a number of a quantized matrix takes, its share of scales included."""

KEPT = 16.0
"""Bits of what quantization leaves alone: embeddings, head, routers, norms, vision tower."""


def weight_bytes(shape: ModelShape, stored: str, *, vision: bool, mtp: bool = False) -> int:
    """Bytes of all weights. `vision` and `mtp`: whether the engine loads the tower and the MTP head."""
    parts = count(shape)
    bits = quantized(parts, stored) * BITS[stored]
    bits += (parts.text - quantized(parts, stored)) * KEPT
    bits += (parts.vision if vision else 0) * KEPT
    bits += (parts.mtp if mtp else 0) * (BITS[stored] if stored != "mxfp4" else KEPT)
    return int(bits / 8)


def weight_bytes_per_gpu(
    shape: ModelShape, stored: str, tensor_parallel: int, *, vision: bool, mtp: bool = False
) -> int:
    """Bytes on each GPU: matrices are split, small parameters are on every one."""
    whole = weight_bytes(shape, stored, vision=vision, mtp=mtp)
    small = int(count(shape).small * KEPT / 8)
    return (whole - small) // tensor_parallel + small


def quantized(parts: Parameters, stored: str) -> int:
    """Parameters that the storage form shrinks: mxfp4 the experts alone, others every matrix of the layers."""
    if stored == "bf16":
        return 0
    if stored == "mxfp4":
        return parts.experts
    return parts.attention + parts.linear_attention + parts.ffn + parts.experts
