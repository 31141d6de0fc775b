"""The fields of a config.json, read strictly: a wrong or missing one is told with its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvrelay.errors import UserError


class ModelConfigError(UserError):
    """A config.json that the planner can't size."""


class Fields:
    """A config's fields; a wrong or missing one is told with its name."""

    def __init__(self, values: Any, name: str) -> None:
        if not isinstance(values, Mapping):
            raise ModelConfigError(f"{name}: is not an object; the planner needs the fields of a config.json")
        self._values = values
        self._name = name

    def part(self, field: str) -> Fields | None:
        """The fields of an object below this one; None where there is none."""
        value = self._values.get(field)
        return None if value is None else Fields(value, f"{self._name}: {field}")

    def get(self, field: str, default: Any = None) -> Any:
        """The raw value."""
        return self._values.get(field, default)

    def text(self, field: str) -> str:
        """A text that must be there."""
        value = self._values.get(field)
        if not isinstance(value, str):
            raise ModelConfigError(f"{self._name}: {field} is {value!r}; the planner needs it as text")
        return value

    def number(self, field: str, default: int | None = None) -> int:
        """A whole number, 0 at least; one that is missing or null is the default, or a fault without one."""
        value = self._values.get(field)
        if value is None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 40:
            raise ModelConfigError(f"{self._name}: {field} is {value!r}; the planner needs a whole number")
        return value

    def positive(self, field: str, default: int | None = None) -> int:
        """A whole number, 1 at least."""
        value = self.number(field, default)
        if value == 0:
            raise ModelConfigError(f"{self._name}: {field} is 0; the planner needs 1 at least")
        return value
