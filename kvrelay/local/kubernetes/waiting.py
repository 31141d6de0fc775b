"""Waiting for something to come true."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T], seconds: float = 60, every: float = 0.2) -> T:
    """Returns the first truthy value of `condition()`. Raises TimeoutError naming `what` and the last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not after {seconds:.0f} s; last seen: {value!r}")
        time.sleep(every)
    return value
