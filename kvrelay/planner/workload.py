"""What is asked of the service: kinds of requests, their lengths and their rate."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvrelay.errors import UserError


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one length. Rate in requests a second, lengths in tokens."""

    rate: float
    prompt: int
    answer: int


@dataclass(frozen=True, slots=True)
class Workload:
    """All requests, as Poisson streams."""

    kinds: tuple[Requests, ...]

    @property
    def rate(self) -> float:
        """Requests a second, all kinds."""
        return sum(kind.rate for kind in self.kinds)

    @property
    def output_rate(self) -> float:
        """Output tokens a second that are asked for."""
        return sum(kind.rate * kind.answer for kind in self.kinds)

    @property
    def token_rate(self) -> float:
        """Prompt and output tokens a second."""
        return sum(kind.rate * (kind.prompt + kind.answer) for kind in self.kinds)

    def at(self, rate: float) -> Workload:
        """The same mix at another total rate."""
        factor = rate / self.rate
        return Workload(tuple(replace(kind, rate=kind.rate * factor) for kind in self.kinds))


# A spread of lengths as five equal parts of a log-normal with a standard deviation of half its mean.
_SPREAD = (0.47, 0.72, 0.94, 1.22, 1.65)


def spread(rate: float, prompt: int, answer: int, longest: int) -> Workload:
    """Prompts spread around a mean, answers of the mean length; nothing beyond `longest` in all."""
    kinds = []
    for factor in _SPREAD:
        tokens = max(1, min(int(prompt * factor), longest - answer))
        kinds.append(Requests(rate / len(_SPREAD), tokens, answer))
    return Workload(tuple(kinds))


def parse_mix(text: str, rate: float) -> Workload:
    """`90%:512/128,10%:12000/64` as shares of requests with prompt and answer lengths.

    Raises UserError, one line, for anything else.
    """
    shares: list[tuple[float, int, int]] = []
    for part in text.split(","):
        share, _, lengths = part.strip().partition(":")
        prompt, _, answer = lengths.partition("/")
        try:
            entry = (float(share.rstrip("%")), int(prompt), int(answer))
        except ValueError:
            entry = (0.0, 0, 0)
        if not (0 < entry[0] <= 1e6 and 0 < entry[1] <= 1 << 24 and 0 < entry[2] <= 1 << 24):
            raise UserError(
                f"--mix: {part.strip()!r} is not share:prompt/answer; write for example 90%:512/128,10%:12000/64"
            )
        shares.append(entry)
    whole = sum(share for share, _, _ in shares)
    return Workload(tuple(Requests(rate * share / whole, prompt, answer) for share, prompt, answer in shares))
