"""What came of one request."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvrelay.bench.request_set import Request


class Ending(StrEnum):
    """How a request ended."""

    WHOLE = "whole"
    """`[DONE]` came, after at least one token."""
    ERROR = "error"
    """The endpoint said what went wrong, before or within the stream."""
    CUT = "cut"
    """The answer had begun and the connection ended without `[DONE]` or an error."""
    REFUSED = "refused"
    """No answer began: the connection was refused, or ended before a status line."""
    TIME_LIMIT = "time limit"
    """It took longer than a request may."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One request with its times in seconds from the start of the load, as the client saw them."""

    request: Request
    sent: float
    """When sending began; later than `request.at` when the client itself was late."""
    ended: float
    ending: Ending
    first_token: float | None = None
    gaps_us: tuple[int, ...] = ()
    """Microseconds between each token and the one before; 0 between tokens that came in one chunk."""
    prompt_tokens: int = 0
    """As the endpoint counted them (`usage`)."""
    completion_tokens: int = 0
    exact: bool = False
    """Whether each token's chunk is known from the endpoint's own counts; else a chunk with text is one token."""
    status: int = 0
    finish_reason: str | None = None
    error: str = ""

    @property
    def whole(self) -> bool:
        return self.ending is Ending.WHOLE

    @property
    def late(self) -> float:
        """Seconds by which the client missed its own plan."""
        return self.sent - self.request.at

    @property
    def ttft(self) -> float:
        """Time to first token since it was meant to be sent, so that a late client hides nothing."""
        return self.first_token - self.request.at if self.first_token is not None else float("inf")

    @property
    def ttft_from_sending(self) -> float:
        """Time to first token since it was really sent."""
        return self.first_token - self.sent if self.first_token is not None else float("inf")

    @property
    def gaps(self) -> list[float]:
        """Inter-token latencies, seconds."""
        return [gap / 1e6 for gap in self.gaps_us]

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, seconds; None for answers of one token."""
        return sum(self.gaps_us) / 1e6 / len(self.gaps_us) if self.gaps_us else None

    @property
    def end_to_end(self) -> float:
        """Seconds from when it was meant to be sent to the end of the answer."""
        return self.ended - self.request.at

    @property
    def tokens(self) -> int:
        """Output tokens that arrived."""
        return max(self.completion_tokens, len(self.gaps_us) + (self.first_token is not None))

    def stalls(self, limit: float) -> int:
        """Gaps of more than `limit` seconds within the answer."""
        return sum(gap > limit * 1e6 for gap in self.gaps_us)
