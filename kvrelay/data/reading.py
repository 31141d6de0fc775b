"""Reads the YAML files that ship with this package: each once, and only when something asks for it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def load(name: str) -> Any:
    """The content of `kvrelay/data/<name>` as plain values, shared by all callers: change none of it.

    Raises FileNotFoundError when there is no such file.
    """
    return yaml.load(files("kvrelay.data").joinpath(name).read_bytes(), Loader=_LOADER)


@cache
def names(folder: str) -> tuple[str, ...]:
    """The names of the YAML files in `kvrelay/data/<folder>`, without their suffix, sorted."""
    entries = files("kvrelay.data").joinpath(folder).iterdir()
    return tuple(
        sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))
    )
