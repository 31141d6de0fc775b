"""Names of settings that Ray, vLLM and KubeRay know, to tell a misspelled key from a new one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SHORTEST_NAME = 5
_LONGEST_NAME = 80


@cache
def _content() -> dict[str, Any]:
    text = Path(__file__).with_name("known_keys.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.load(text, Loader=_LOADER)
    return content


@cache
def known(*kinds: str) -> frozenset[str]:
    """The names of one or several kinds, such as `llm_config`."""
    return frozenset(name for kind in kinds for name in _content()[kind])


def meant(name: str, *kinds: str) -> str | None:
    """The known name that `name` is a misspelling of; None when it is known, or unlike all of them.

    One letter too many, too few, wrong or swapped with its neighbour; case, dashes and underscores do not count.
    """
    if name in known(*kinds) or not _SHORTEST_NAME <= len(name) <= _LONGEST_NAME:
        return None
    variants = _variants(*kinds)
    return next((variants[each] for each in _shortened(_plain(name)) if each in variants), None)


@cache
def _variants(*kinds: str) -> dict[str, str]:
    """Every known name, whole and with each letter left out, with the name itself."""
    names = [name for name in sorted(known(*kinds)) if len(name) >= _SHORTEST_NAME]
    shortened = {each: name for name in names for each in _shortened(_plain(name))}
    return shortened | {_plain(name): name for name in names}


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _shortened(name: str) -> list[str]:
    return [name, *(name[:index] + name[index + 1 :] for index in range(len(name)))]
