"""How long prompts and answers are: a number, a range, or a log-normal spread around a mean."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

MOST_TOKENS = 1 << 20
_FORM = re.compile(r"(?P<low>\d+)(?:\.\.(?P<high>\d+)|~(?P<spread>\d+(?:\.\d+)?))?", re.ASCII)
_LONGEST_OF_MEAN = 10


@dataclass(frozen=True, slots=True)
class Length:
    """Tokens, `low` to `high` evenly; or log-normal with mean `low` and a standard deviation of `spread` x `low`."""

    low: int
    high: int
    spread: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Length:
        """From `512`, `256..1024` or `512~0.5`. Raises ValueError for anything else."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ValueError(text)
        low, spread = int(match["low"]), float(match["spread"] or 0)
        high = int(match["high"] or low)
        if not (1 <= low <= high <= MOST_TOKENS and spread <= 10):
            raise ValueError(text)
        return cls(low, high, spread)

    def draw(self, source: Random) -> int:
        """One length. Uses `source.random()` alone, whose sequence is the same in every Python."""
        chance = source.random()
        if not self.spread:
            return self.low + int(chance * (self.high - self.low + 1))
        variance = math.log1p(self.spread**2)
        normal = NormalDist(math.log(self.low) - variance / 2, math.sqrt(variance))
        tokens = math.exp(normal.inv_cdf(min(max(chance, 1e-9), 1 - 1e-9)))
        return max(1, min(round(tokens), _LONGEST_OF_MEAN * self.low, MOST_TOKENS))
