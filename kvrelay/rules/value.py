"""A value in a YAML document that may be missing or of the wrong kind, with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kvrelay.yaml_source import Document, Key, Node, Place, YamlPath, path_text

_LONGEST_SHOWN = 60


class Value:
    """What stands at a path of a document, read without ever failing.

    Files in the wild hold anything anywhere: a rule asks for text, a number or a list and gets None or nothing
    when something else stands there, so that no rule needs to guard against another rule's fault.
    """

    __slots__ = ("_node", "document", "path")

    def __init__(self, document: Document, path: YamlPath = (), node: Node | None = None) -> None:
        self.document = document
        self.path = path
        self._node = node

    @classmethod
    def root(cls, document: Document) -> Value:
        """The whole document."""
        return cls(document, (), document.root)

    def __getitem__(self, key: Key) -> Value:
        child = self._node.children.get(key) if self._node else None
        return Value(self.document, (*self.path, key), child)

    def at(self, *keys: Key) -> Value:
        """The value at a path below this one."""
        node = self._node
        for key in keys:
            node = node.children.get(key) if node else None
        return Value(self.document, (*self.path, *keys), node)

    @property
    def exists(self) -> bool:
        """Whether anything but null stands here."""
        return self._node is not None and self._node.value is not None

    @property
    def written(self) -> bool:
        """Whether the key is written at all, be it with nothing behind it."""
        return self._node is not None

    @property
    def raw(self) -> Any:
        """Plain dicts, lists and scalars; None when missing."""
        return self._node.value if self._node else None

    @property
    def scalar(self) -> str | int | float | bool | None:
        """A scalar, which can be looked up in a set; None for mappings and lists, which can't."""
        return self.raw if isinstance(self.raw, str | int | float | bool) else None

    @property
    def node(self) -> Node | None:
        """The node of the document; None when missing."""
        return self._node

    @property
    def text(self) -> str | None:
        """A string, or None."""
        return self.raw if isinstance(self.raw, str) else None

    @property
    def scalar_text(self) -> str | None:
        """A string, number or switch as the text that an environment variable would get, or None."""
        if isinstance(self.raw, bool):
            return "true" if self.raw else "false"
        return str(self.raw) if isinstance(self.raw, str | int | float) else None

    @property
    def number(self) -> float | None:
        """A finite number, or None; a switch is none."""
        if isinstance(self.raw, bool) or not isinstance(self.raw, int | float):
            return None
        return self.raw if abs(self.raw) < 1e18 and math.isfinite(self.raw) else None

    @property
    def whole(self) -> int | None:
        """A whole number, or None."""
        number = self.number
        return int(number) if number is not None and number == int(number) else None

    @property
    def is_true(self) -> bool:
        """Whether `true` stands here."""
        return self.raw is True

    @property
    def is_mapping(self) -> bool:
        """Whether a mapping stands here."""
        return isinstance(self.raw, dict)

    @property
    def is_list(self) -> bool:
        """Whether a list stands here."""
        return isinstance(self.raw, list)

    def items(self) -> Iterator[Value]:
        """The entries of a list; nothing for anything else."""
        if self.is_list and self._node:
            for key, child in self._node.children.items():
                yield Value(self.document, (*self.path, key), child)

    def entries(self) -> Iterator[tuple[str, Value]]:
        """The entries of a mapping whose keys are text; nothing for anything else."""
        if self.is_mapping and self._node:
            for key, child in self._node.children.items():
                if isinstance(key, str):
                    yield key, Value(self.document, (*self.path, key), child)

    @property
    def place(self) -> Place:
        """File, line and column; those of the nearest value above when this one is missing."""
        if self._node:
            return Place(self.document.file, self._node.line, self._node.column)
        return self.document.place(self.path)

    @property
    def path_text(self) -> str:
        """The path as a reader writes it: `args.items[0].name`."""
        return path_text(self.path)

    @property
    def shown(self) -> str:
        """The value in a message: shortened, control characters escaped, mappings and lists by their size."""
        raw = self.raw
        if raw is None:
            return "nothing"
        if isinstance(raw, dict | list):
            return f"{len(raw)} entries"
        if isinstance(raw, bool):
            return "true" if raw else "false"
        if isinstance(raw, int) and abs(raw) > 10**_LONGEST_SHOWN:
            return "a very large number"
        text = repr(raw)
        return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def document_of(value: object, file: str) -> Document:
    """Plain dicts, lists and scalars, as a rendered manifest, as a document; every place is line 1."""
    return Document(file, _node_of(value))


def _node_of(value: object) -> Node:
    node = Node(value, 1, 1)
    if isinstance(value, dict):
        node.children = {key: _node_of(child) for key, child in value.items()}
    elif isinstance(value, list | tuple):
        node.value = list(value)
        node.children = {index: _node_of(child) for index, child in enumerate(value)}
    return node
