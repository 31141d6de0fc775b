"""Does prefill/decode pay here: the same requests on two endpoints, compared one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kvrelay.bench.cells import Cell
from kvrelay.bench.figures import Figures, Goals, figures

# Below this chance of arising from nothing, a difference counts.
_CLEAR = 0.05


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `subject` gained and lost against `other` at one rate, over requests that both were asked."""

    subject: str
    other: str
    rate: float | None
    requests: int
    gained: int
    """Requests within the goals on `subject` only."""
    lost: int
    """Requests within the goals on `other` only."""
    chance: float
    """How likely so uneven a split is if the two are equal (sign test, two-sided)."""
    subject_figures: Figures
    other_figures: Figures

    @property
    def pays(self) -> bool | None:
        """Whether the subject keeps the goals for more requests; None when no difference is clear."""
        return None if self.chance >= _CLEAR else self.gained > self.lost

    @property
    def text(self) -> str:
        """One line for people."""
        mine, theirs = self.subject_figures, self.other_figures
        answer = {True: "pays", False: "does not pay", None: "makes no clear difference"}[self.pays]
        where = "in this trace" if self.rate is None else f"at {self.rate:g}/s"
        trades = "; ".join([*_trades(mine, theirs), *self._advice()])
        return (
            f"{self.subject} {answer} {where}: {mine.within_share:.1%} of the requests keep the goals, "
            f"{theirs.within_share:.1%} on {self.other} ({self.gained} gained, {self.lost} lost of "
            f"{self.requests}, p = {self.chance:.2g}); {trades}"
        )

    def _advice(self) -> Iterator[str]:
        """How to tell the two apart when these goals do not."""
        shares = (self.subject_figures.within_share, self.other_figures.within_share)
        if self.pays is None and min(shares) > 1 - _CLEAR:
            yield "both keep the goals: a higher rate or tighter goals would tell them apart"
        elif self.pays is None and max(shares) < _CLEAR:
            yield "neither keeps the goals: a lower rate or looser goals would tell them apart"


def verdicts(cells: Sequence[Cell], goals: Goals) -> list[Verdict]:
    """The endpoint called pd, or else the first, against each other one at each rate at which both were measured."""
    names = list(dict.fromkeys(cell.endpoint for cell in cells))
    subject = "pd" if "pd" in names else next(iter(names), "")
    rates = dict.fromkeys(cell.rate for cell in cells)
    found: list[Verdict] = []
    for rate in rates:
        for other in names:
            if other != subject:
                found += _verdict(_at(cells, subject, rate), _at(cells, other, rate), goals)
    return found


def _at(cells: Sequence[Cell], endpoint: str, rate: float | None) -> dict[str, Cell]:
    return {cell.asked: cell for cell in cells if cell.endpoint == endpoint and cell.rate == rate}


def _verdict(mine: Mapping[str, Cell], theirs: Mapping[str, Cell], goals: Goals) -> Iterator[Verdict]:
    common = [
        asked
        for asked, cell in mine.items()
        if asked in theirs and len(cell.outcomes) == len(theirs[asked].outcomes)
    ]
    if not common:
        return
    pairs = [
        (goals.met(one), goals.met(two))
        for asked in common
        for one, two in zip(mine[asked].outcomes, theirs[asked].outcomes, strict=True)
    ]
    gained = sum(one and not two for one, two in pairs)
    lost = sum(two and not one for one, two in pairs)
    first = mine[common[0]]
    yield Verdict(
        subject=first.endpoint,
        other=theirs[common[0]].endpoint,
        rate=first.rate,
        requests=len(pairs),
        gained=gained,
        lost=lost,
        chance=sign_test(gained, lost),
        subject_figures=pooled([mine[asked] for asked in common], goals),
        other_figures=pooled([theirs[asked] for asked in common], goals),
    )


def pooled(cells: Sequence[Cell], goals: Goals, kind: str | None = None) -> Figures:
    """Figures over several rounds of one endpoint at one rate, of all requests or of one kind."""
    outcomes = [
        outcome for cell in cells for outcome in cell.outcomes if kind is None or outcome.request.kind == kind
    ]
    return figures(
        outcomes, sum(cell.load_seconds for cell in cells), goals, sum(cell.elapsed for cell in cells)
    )


def sign_test(gained: int, lost: int) -> float:
    """The chance of a split at least so uneven when each of the requests could as well have gone the other way."""
    count, fewer = gained + lost, min(gained, lost)
    if not count:
        return 1.0
    tail = sum(math.comb(count, each) for each in range(fewer + 1))
    return float(min(1.0, 2 * tail / 2**count))


def _trades(mine: Figures, theirs: Figures) -> Iterator[str]:
    if mine.ttft and theirs.ttft:
        yield f"TTFT p50 {mine.ttft.p50 * 1e3:.0f} against {theirs.ttft.p50 * 1e3:.0f} ms"
    if mine.itl and theirs.itl:
        yield f"ITL p99 {mine.itl.p99 * 1e3:.1f} against {theirs.itl.p99 * 1e3:.1f} ms"
    yield f"stalled answers {mine.stalled_share:.1%} against {theirs.stalled_share:.1%}"
