"""How long a prefill and a decode step take: data-sheet speed times a calibrated share."""

from __future__ import annotations

from collections.abc import Callable
from math import log2

from kvrelay.data.performance import calibration
from kvrelay.planner.engine import Engine
from kvrelay.planner.parameters import active, count
from kvrelay.planner.shape import GroupedAttention, ModelShape
from kvrelay.planner.weights import BITS, KEPT, quantized


def prefill_seconds(engine: Engine, tokens: int) -> float:
    """One prompt alone on the engine's GPUs: bound by compute, or by one pass over the weights."""
    compute = prefill_flops(engine.shape, tokens) / (_tflops(engine) * 1e12 * calibration().compute_share)
    memory = read_bytes(engine, tokens) / (engine.gpu.gb_per_s * 1e9 * calibration().bandwidth_share)
    steps = -(-tokens // engine.batched_tokens)
    return max(compute, memory * steps) / _parallel(engine) + steps * calibration().step_seconds


def decode_step(engine: Engine, tokens: float) -> Callable[[float], float]:
    """Seconds of one token for each of a batch of sequences that hold `tokens` tokens on average."""
    shape = engine.shape
    held = engine.cache.sequence(max(1, int(tokens))) * engine.tensor_parallel
    flops = 2 * active(shape) + 4 * _width(shape) * tokens * shape.full_layers
    bandwidth = engine.gpu.gb_per_s * 1e9 * calibration().bandwidth_share * _parallel(engine)
    rate = _tflops(engine) * 1e12 * calibration().compute_share * _parallel(engine)
    fixed = read_bytes(engine, 1) if shape.experts is None else None

    def seconds(batch: float) -> float:
        weights = read_bytes(engine, batch) if fixed is None else fixed
        return max((weights + batch * held) / bandwidth, batch * flops / rate) + calibration().step_seconds

    return seconds


def prefill_flops(shape: ModelShape, tokens: int) -> float:
    """Operations of a prompt: every active parameter twice a token, and attention over what came before."""
    head = shape.vocabulary * shape.hidden
    matrices = 2.0 * (active(shape) - head) * tokens + 2.0 * head
    full = 2.0 * _width(shape) * tokens * tokens * shape.full_layers
    seen = min(tokens, shape.window)
    windowed = 4.0 * _width(shape) * shape.window_layers * (tokens * seen - seen * seen / 2)
    state = 0.0
    if shape.linear:
        linear = shape.linear
        state = 6.0 * linear.value_heads * linear.key_dim * linear.value_dim * tokens * shape.linear_layers
    return matrices + full + windowed + state


def read_bytes(engine: Engine, tokens: float) -> float:
    """Weights that a step of so many tokens reads: experts only as far as some token chose them."""
    shape, parts = engine.shape, count(engine.shape)
    shrunk = quantized(parts, engine.stored)
    touched = 1.0
    if shape.experts:
        touched = 1 - (1 - shape.experts.active / shape.experts.count) ** max(1.0, tokens)
    experts_bits = BITS[engine.stored] if engine.stored != "bf16" else KEPT
    outside = shrunk - parts.experts if shrunk else 0
    kept = parts.text - parts.embedding - parts.experts - outside
    if shape.tied_embeddings:
        kept += parts.embedding
    return (parts.experts * experts_bits * touched + outside * BITS[engine.stored] + kept * KEPT) / 8


def _width(shape: ModelShape) -> int:
    """Numbers that one query token multiplies for each key it attends to, all heads."""
    attention = shape.attention
    if isinstance(attention, GroupedAttention):
        return attention.heads * attention.head_dim
    return attention.heads * (attention.nope_dim + attention.rope_dim + attention.value_dim) // 2


def _tflops(engine: Engine) -> float:
    """Hardware fp8 where weights and GPU both have it; every other form is multiplied in bf16."""
    rates = engine.gpu.tflops
    return rates["fp8"] if engine.stored == "fp8" and "fp8" in rates else rates["bf16"]


def _parallel(engine: Engine) -> float:
    """Speed-up by tensor parallelism: less than the number of GPUs, for what they say to each other."""
    size = engine.tensor_parallel
    return float(size * calibration().tensor_parallel_share ** log2(size))
