"""The error for a name that the data does not hold, with the closest that it does."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from kvrelay.errors import UserError


class UnknownNameError(UserError):
    """A name that stands in no data file."""


def unknown_name(what: str, name: str, known: Iterable[str], remedy: str) -> UnknownNameError:
    """`remedy` is the command or file that could add the name."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    meant = f"did you mean {' or '.join(close)}?" if close else f"see {remedy}"
    return UnknownNameError(f"{what} {name!r} is not known; {meant}")
