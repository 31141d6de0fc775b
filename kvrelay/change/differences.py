"""Where two values differ, by path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Path = tuple[str, ...]
_ABSENT = object()


def differences(before: Any, after: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of the smallest parts that differ. Lists of another length differ as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys((*before, *after)):
            yield from differences(before.get(key, _ABSENT), after.get(key, _ABSENT), (*path, str(key)))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (left, right) in enumerate(zip(before, after, strict=True)):
            yield from differences(left, right, (*path, str(index)))
    elif before is _ABSENT or after is _ABSENT or type(before) is not type(after) or before != after:
        yield path
