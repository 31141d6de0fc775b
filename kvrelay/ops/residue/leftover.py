"""One thing left behind, with its price and the call that removes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kvrelay.data import HOURS_PER_MONTH


@dataclass(frozen=True)
class Leftover:
    """`usd_per_month` is None where the price is not known; `delete` is None where nothing is to be done."""

    kind: str
    id: str
    name: str
    usd_per_month: float | None
    delete: Callable[[], object] | None = field(compare=False)

    def as_dict(self) -> dict[str, str | float | None]:
        """For JSON."""
        return {"kind": self.kind, "id": self.id, "name": self.name, "usd_per_month": self.usd_per_month}


def monthly(usd_per_hour: float | None, count: float = 1) -> float | None:
    """A price by the hour, for a month."""
    return None if usd_per_hour is None else round(usd_per_hour * count * HOURS_PER_MONTH, 2)
