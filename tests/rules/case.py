"""A row of a rule table: the smallest change of a good input that breaks the rule, and near ones that keep it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Patch = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """`breaks` breaks the rule alone (and `also`), in one place; each patch of `keeps` breaks no rule at all."""

    rule: str
    on: str
    breaks: Patch
    keeps: tuple[Patch, ...] = ()
    also: frozenset[str] = field(default=frozenset())
