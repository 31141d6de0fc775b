"""The classes of change, mildest first, and one change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Effect(IntEnum):
    """How much of what runs a change touches. The value orders them; exit codes are 10 and the value."""

    NOTHING = 0
    IN_PLACE = 1
    ROLLING = 2
    NEW_RAY_CLUSTER = 3
    NODE_REPLACEMENT = 4
    LOSS = 5

    @property
    def label(self) -> str:
        """As it is written on the command line and in JSON."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class Change:
    """One resource or Kubernetes object that differs."""

    stack: str
    subject: str
    """Logical id of a resource, or kind/namespace/name of an object."""
    kind: str
    effect: Effect
    what: str
    paths: tuple[str, ...] = ()
    """What differs inside it."""
    causes: tuple[str, ...] = ()
    """Settings that brought it about, by path."""

    def caused_by(self, causes: tuple[str, ...]) -> Change:
        """The same change with its causes."""
        return replace(self, causes=causes)
