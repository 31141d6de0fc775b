"""Names of settings that Ray, vLLM and KubeRay know, to tell a misspelled key from a new one."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any

import yaml

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CLOSE = 0.8
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


@cache
def meant(name: str, *kinds: str) -> str | None:
    """The known name that `name` is a misspelling of; None when it is known, or unlike all of them."""
    names = known(*kinds)
    if name in names or len(name) > _LONGEST_NAME:
        return None
    close = difflib.get_close_matches(name.lower().replace("-", "_"), sorted(names), n=1, cutoff=_CLOSE)
    if close:
        return close[0]
    return next((known_name for known_name in names if known_name.lower() == name.lower()), None)
