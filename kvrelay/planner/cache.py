"""Bytes that a sequence keeps on a GPU: KV cache by token, state by sequence, and vLLM's blocks around them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvrelay.planner.shape import GroupedAttention, LatentAttention, ModelShape

KV_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Bytes of one cached number, by `kv_cache_dtype`."""

CONV_BYTES = 2
"""Bytes of one number of a convolution's state."""

BLOCK_TOKENS = 16
"""vLLM's default block, and what a hybrid model's larger blocks are a multiple of."""


@dataclass(frozen=True, slots=True)
class CacheShape:
    """The cache of one model on one GPU of a tensor-parallel group. Bytes."""

    full_token: int
    """A token in all layers of full attention."""
    window_token: int
    """A token in all layers of windowed attention."""
    window: int
    state: int
    """The states of one sequence, as they are."""
    block_tokens: int
    full_layers: int
    linear_layers: int

    @property
    def token(self) -> int:
        """A token while it is inside every window: the usual figure of a model."""
        return self.full_token + self.window_token

    @property
    def padded_state(self) -> int:
        """The states of one sequence in blocks as large as those of the attention layers."""
        if not self.linear_layers or not self.full_layers:
            return self.state
        return self.linear_layers * self.block_tokens * self.full_token // self.full_layers

    def sequence(self, tokens: int) -> int:
        """A sequence of so many tokens, in whole blocks."""
        blocks = math.ceil(tokens / self.block_tokens)
        inside = min(tokens, self.window) if self.window else 0
        # A window that starts amid a block keeps that block whole.
        window_blocks = min(math.ceil(inside / self.block_tokens) + 1, blocks) if inside else 0
        return (
            blocks * self.block_tokens * self.full_token
            + window_blocks * self.block_tokens * self.window_token
            + self.padded_state
        )

    def travels(self, tokens: int) -> int:
        """What prefill hands over of a prompt: whole blocks, and states without the padding that they have in memory.

        A hybrid model's prefill leaves the prompt's last token to decode. vLLM 0.26, nixl/base_scheduler.py; on an H200
        it was as much to the byte (docs/benchmarks.md, question 5).
        """
        if not self.state:
            return self.sequence(tokens)
        return self.sequence(max(tokens - 1, 1)) - self.padded_state + self.state

    def longest(self, room: int, sequences: int) -> int:
        """The most tokens that `sequences` sequences of equal length may have in `room` bytes; 0 if none."""
        each = room // max(1, sequences)
        if self.sequence(1) > each:
            return 0
        low, high = 1, 1 << 28
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.sequence(middle) <= each else (low, middle - 1)
        return low


def cache_shape(
    shape: ModelShape, kv_dtype: str = "auto", tensor_parallel: int = 1, block: int | None = None
) -> CacheShape:
    """The cache of a model. `block`: the engine's block_size; a hybrid model raises it to hold a state."""
    layer = layer_token_bytes(shape, kv_dtype, tensor_parallel)
    state = _layer_state(shape, tensor_parallel)
    block_tokens = block or BLOCK_TOKENS
    if state:
        block_tokens = max(block_tokens, BLOCK_TOKENS * math.ceil(state / (BLOCK_TOKENS * layer)))
    return CacheShape(
        full_token=shape.full_layers * layer,
        window_token=shape.window_layers * layer,
        window=shape.window,
        state=shape.linear_layers * state,
        block_tokens=block_tokens,
        full_layers=shape.full_layers,
        linear_layers=shape.linear_layers,
    )


def layer_token_bytes(shape: ModelShape, kv_dtype: str = "auto", tensor_parallel: int = 1) -> int:
    """A token in one attention layer on one GPU. Heads are split, a latent cache is not."""
    attention = shape.attention
    if isinstance(attention, LatentAttention):
        return (attention.kv_rank + attention.rope_dim) * KV_BYTES[kv_dtype]
    assert isinstance(attention, GroupedAttention)
    heads = max(1, attention.kv_heads // tensor_parallel)
    return 2 * heads * attention.head_dim * KV_BYTES[kv_dtype]


def _layer_state(shape: ModelShape, tensor_parallel: int) -> int:
    """The recurrent and convolution states of one sequence in one gated-delta-net layer on one GPU."""
    if shape.linear is None:
        return 0
    linear = shape.linear
    recurrent = linear.value_heads * linear.key_dim * linear.value_dim * linear.state_bytes
    convolution = linear.conv_channels * (linear.conv_kernel - 1) * CONV_BYTES
    return (recurrent + convolution) // tensor_parallel
