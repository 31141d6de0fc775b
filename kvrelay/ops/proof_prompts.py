"""Prompts for proving a prefill/decode pair right: every length where a block begins, ends or overflows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

PLAIN_TOKENS = range(60, 260)
"""Single characters in every byte-pair vocabulary from the tiny model's 480 upwards: no special token is among them."""


@dataclass(frozen=True, slots=True)
class ProofPrompt:
    """A prompt as token ids, so that its length is what it says, and the number of tokens to answer."""

    tokens: tuple[int, ...]
    max_tokens: int

    @property
    def length(self) -> int:
        return len(self.tokens)

    @classmethod
    def drawn(cls, source: random.Random, length: int, max_tokens: int) -> ProofPrompt:
        """So many tokens, drawn from `source`."""
        return cls(tuple(source.choices(PLAIN_TOKENS, k=length)), max_tokens)


def proof_prompts(
    block_size: int, max_model_len: int, max_tokens: int = 16, seed: int = 7, shortest: int = 1
) -> list[ProofPrompt]:
    """One prompt for each telling length from `shortest` on that leaves room for `max_tokens`, seeded."""
    source = random.Random(seed)
    lengths = sorted(set(_lengths(block_size, shortest, max_model_len - max_tokens)))
    return [ProofPrompt.drawn(source, length, max_tokens) for length in lengths]


def _lengths(block: int, shortest: int, longest: int) -> Iterator[int]:
    edges = [block, 2 * block, 3 * block, 8 * block, longest // block * block]
    for length in (1, 2, 5, *(edge + step for edge in edges for step in (-1, 0, 1)), longest // 2, longest):
        if shortest <= length <= longest:
            yield length
