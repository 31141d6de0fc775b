"""Renders a portable Serve config for a target: what was added, where, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Protocol

import yaml

from kvrelay.serve_app.app import ServeApp
from kvrelay.yaml_source import Key, YamlPath, path_text


class Kind(StrEnum):
    """What an edit does."""

    SET = "set"
    """The target needs this value, whatever the file says."""
    DEFAULT = "default"
    """The target proposes this value; the file's own stands."""
    REMOVE = "remove"
    """The key has no place on this target."""


@dataclass(frozen=True)
class Edit:
    """One thing that a target wants of a config."""

    path: YamlPath
    value: Any
    reason: str
    kind: Kind = Kind.SET


@dataclass(frozen=True)
class Addition:
    """One difference between the portable config and the rendered one."""

    path: YamlPath
    value: Any
    """The new value; None for a removed key."""
    reason: str
    removed: bool = False
    replaced: Any = None
    """What stood there before; None when nothing did."""

    def __str__(self) -> str:
        """One line: the path, the value or that it was removed, and why."""
        what = "removed" if self.removed else f"{_flow(self.value)}"
        return f"{path_text(self.path)}: {what} ({self.reason})"


class Target(Protocol):
    """Where an app runs; says what its config needs there."""

    @property
    def name(self) -> str:
        """Its name on the command line."""
        ...

    def edits(self, app: ServeApp) -> Iterable[Edit]:
        """Everything that the target wants, in the order in which it is told."""
        ...


@dataclass(frozen=True)
class Rendered:
    """A Serve config for one target: `config` as plain data, `additions` over the portable file."""

    config: dict[str, Any]
    additions: tuple[Addition, ...]

    @cached_property
    def text(self) -> str:
        """YAML for `serve run` and RayService's `serveConfigV2`; the same input gives the same bytes."""
        text: str = yaml.dump(self.config, Dumper=_Plain, sort_keys=False, width=110)
        return text


def render(app: ServeApp, target: Target) -> Rendered:
    """Applies what the target wants to a copy of the app's config. Rendering a rendered config adds nothing."""
    config = _copy(app.config)
    additions = [addition for edit in target.edits(app) for addition in _apply(config, edit)]
    return Rendered(config, tuple(additions))


def _apply(config: Any, edit: Edit) -> Iterator[Addition]:
    *above, last = edit.path
    parent: Any = config
    for key in above:
        # A key without a value is as good as none.
        below = parent[key] if _holds(parent, key) else None
        if below is None:
            if edit.kind is Kind.REMOVE:
                return
            below = parent[key] = {}
        parent = below
    before = parent[last] if _holds(parent, last) else None
    if edit.kind is Kind.REMOVE:
        if _holds(parent, last):
            del parent[last]
            yield Addition(edit.path, None, edit.reason, removed=True, replaced=before)
    elif before != edit.value and not (edit.kind is Kind.DEFAULT and _holds(parent, last)):
        parent[last] = _copy(edit.value)
        yield Addition(edit.path, edit.value, edit.reason, replaced=before)


def _holds(parent: Any, key: Key) -> bool:
    return isinstance(key, int) and key < len(parent) if isinstance(parent, list) else key in parent


def _copy(value: Any) -> Any:
    """A copy in which nothing is shared: what YAML's aliases share would change in two places at once."""
    if isinstance(value, dict):
        return {key: _copy(child) for key, child in value.items()}
    return [_copy(child) for child in value] if isinstance(value, list | tuple) else value


class _Plain(yaml.SafeDumper):
    """No anchors, blocks indented below their key."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _flow(value: Any) -> str:
    text: str = yaml.dump(value, Dumper=_Plain, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")
