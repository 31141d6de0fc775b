"""The requests of one measurement, drawn from a seed: the same seed asks every endpoint the same."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from random import Random

from kvrelay.bench.lengths import Length
from kvrelay.errors import UserError

MOST_REQUESTS = 200_000


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of one sort: their name, their share of all, and their lengths in tokens."""

    name: str
    share: float
    prompt: Length
    answer: Length


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `at` is when it is to be sent, in seconds from the start."""

    at: float
    prompt_tokens: int
    answer_tokens: int
    kind: str
    prompt: str = ""
    """Its text; made up from the set's seed, `prompt_tokens` long, when empty."""


@dataclass(frozen=True)
class RequestSet:
    """Requests in the order of their times. `seconds` is how long they come; `label` seeds their prompts."""

    label: str
    requests: tuple[Request, ...]
    seconds: float
    rate: float | None = None
    """Requests a second that were asked for; None for a trace, which has its own times."""

    @property
    def fingerprint(self) -> str:
        """A hash of all that is asked and when: equal sets have equal ones."""
        content = repr((self.label, [astuple(request) for request in self.requests]))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def parse_mix(text: str) -> tuple[Kind, ...]:
    """`chat=90%:512~0.5/128,long=10%:8000..16000/64`: name, share, prompt and answer lengths of each kind.

    A kind without a name is called by its lengths; one without a share is all there is. Raises UserError.
    """
    kinds = []
    for part in text.split(","):
        name, named, rest = part.strip().rpartition("=")
        share, shared, lengths = rest.rpartition(":")
        prompt, _, answer = lengths.partition("/")
        try:
            weight = float(share.removesuffix("%")) if shared else 1.0
            kind = Kind(name if named else lengths, weight, Length.parse(prompt), Length.parse(answer))
            if not 0 < weight <= 1e6 or (named and not name):
                raise ValueError(part)
        except ValueError:
            raise UserError(
                f"--mix: {part.strip()!r} is not share:prompt/answer in tokens; write for example "
                "512/128, or chat=90%:512~0.5/128,long=10%:8000..16000/64"
            ) from None
        kinds.append(kind)
    if len({kind.name for kind in kinds}) < len(kinds):
        raise UserError(
            f"--mix: {text!r} has two kinds of one name; name them apart, name=share:prompt/answer"
        )
    return tuple(kinds)


def poisson_requests(
    mix: Sequence[Kind], rate: float, seconds: float, seed: int, round_: int = 0
) -> RequestSet:
    """Requests of a mix that arrive independently of each other, `rate` a second on average, for `seconds`.

    Another rate spreads the same lengths over other times, with other prompts: what an engine has cached from one rate
    is no help at the next. Raises UserError when nothing, or too much, would be sent.
    """
    if rate * seconds > MOST_REQUESTS:
        raise UserError(
            f"{rate:g} requests/s for {seconds:g} s are over {MOST_REQUESTS} requests; lower --rate or --seconds"
        )
    arrivals, shapes = Random(f"{seed}/{round_}/arrivals"), Random(f"{seed}/{round_}/shapes")
    requests = []
    at = _gap(arrivals) / rate
    while at < seconds:
        kind = _chosen(mix, shapes.random())
        prompt, answer = kind.prompt.draw(shapes), kind.answer.draw(shapes)
        requests.append(Request(round(at, 6), prompt, answer, kind.name))
        at += _gap(arrivals) / rate
    if not requests:
        raise UserError(
            f"no request falls into {seconds:g} s at {rate:g} a second; raise --seconds or --rate"
        )
    return RequestSet(f"{seed}/{round_}/{rate:g}", tuple(requests), seconds, rate)


def warmup_requests(asked: RequestSet, count: int) -> RequestSet:
    """As many of the set's shapes, all at once, with prompts of their own."""
    requests = tuple(
        Request(0.0, request.prompt_tokens, request.answer_tokens, request.kind)
        for request in asked.requests[:count]
    )
    return RequestSet(f"{asked.label}/warmup", requests, 0.0)


def _gap(source: Random) -> float:
    """Time to the next arrival, in mean gaps."""
    return -math.log(1.0 - source.random())


def _chosen(mix: Sequence[Kind], chance: float) -> Kind:
    remaining = chance * sum(kind.share for kind in mix)
    for kind in mix:
        remaining -= kind.share
        if remaining < 0:
            return kind
    return mix[-1]
