"""YAML that remembers where each value stands, and refuses files built to exhaust the reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from kvrelay.errors import InvalidFileError

Key = str | int | float | bool | None
YamlPath = tuple[Key, ...]

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 100_000

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"
# Kubernetes and Ray read a date as the text it is written in.
_KEPT_AS_TEXT = {_STRING, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Node:
    """One value with its position. `children` maps a mapping's keys, or a list's indices, to their nodes."""

    value: Any
    line: int
    column: int
    children: dict[Key, Node] = field(default_factory=dict)
    values: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: plain values, and the place of each by its path."""

    file: str
    root: Node

    @property
    def value(self) -> Any:
        """The document as plain dicts, lists and scalars. Aliased values are shared: change none in place."""
        return self.root.value

    def at(self, path: Sequence[Key]) -> Any:
        """The value at `path`, which must exist."""
        node = self.root
        for key in path:
            node = node.children[key]
        return node.value

    def place(self, path: Sequence[Key] = ()) -> Place:
        """Where the value at `path` stands; the nearest value above it when the path leads nowhere."""
        node = self.root
        for key in path:
            child = node.children.get(key)
            if child is None:
                break
            node = child
        return Place(self.file, node.line, node.column)


def path_text(path: Sequence[Key]) -> str:
    """`('args', 'items', 0, 'name')` as `args.items[0].name`."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else str(key)
    return text


def read_document(path: Path) -> Document:
    """The one document of a file. Raises InvalidFileError when there is none, or more than one."""
    documents = read_documents(path)
    if len(documents) != 1:
        raise InvalidFileError([f"{path}: holds {len(documents)} YAML documents; exactly one is needed"])
    return documents[0]


def read_documents(path: Path) -> list[Document]:
    """All non-empty documents of a file. Raises InvalidFileError, one line, when it can't be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidFileError(
                [f"{path}: is larger than {MAX_BYTES // 1024 // 1024} MiB; is it the right file?"]
            )
        content = path.read_bytes()
    except OSError as error:
        raise InvalidFileError([f"{path}: can't be read: {error.strerror}"]) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFileError([f"{path}:{line}: is not UTF-8 text; save it as UTF-8"]) from None
    return parse_documents(text, str(path))


def parse_documents(text: str, file: str) -> list[Document]:
    """All non-empty documents in `text`; `file` names it in messages."""
    try:
        return [Document(file, root) for root in _Composer(text, file).roots() if root.value is not None]
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        code = ord(error.character) if isinstance(error.character, str) else error.character
        raise InvalidFileError(
            [f"{file}:{line}: holds the character U+{code:04X}, which YAML does not allow; remove it"]
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InvalidFileError([f"{file}:{line}: is not YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise InvalidFileError([f"{file}: is not YAML: {' '.join(str(error).split())}"]) from None


class _Composer:
    """Builds nodes from parser events, without recursion into hostile depth and without expanding aliases."""

    def __init__(self, text: str, file: str) -> None:
        self._loader = _LOADER(text)
        self._file = file
        self._resolver: Any = Resolver()
        self._constructor = SafeConstructor()
        self._anchors: dict[str, Node] = {}
        self._scalars = 0

    def roots(self) -> Iterator[Node]:
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    self._anchors = {}
                    yield self._node(self._loader.get_event(), depth=1)
        finally:
            self._loader.dispose()

    def _fail(self, event: Any, problem: str) -> InvalidFileError:
        return InvalidFileError([f"{self._file}:{event.start_mark.line + 1}: {problem}"])

    def _node(self, event: Any, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self._fail(event, f"is nested more than {MAX_DEPTH} levels deep; is it the right file?")
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._fail(event, f"refers to the anchor *{event.anchor}, which nothing above defines")
            return self._anchors[event.anchor]
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self._sequence(event, depth)
        else:
            node = self._mapping(event, depth)
        if node.values > MAX_VALUES:
            raise self._fail(event, f"holds more than {MAX_VALUES:,} values once its aliases are followed")
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Node:
        self._scalars += 1
        if self._scalars > MAX_VALUES:
            raise self._fail(event, f"holds more than {MAX_VALUES:,} values; is it the right file?")
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in _KEPT_AS_TEXT or tag == _MERGE:
            return Node(event.value, line, column)
        try:
            value = self._constructor.construct_object(yaml.ScalarNode(tag, event.value, event.start_mark))
        except yaml.constructor.ConstructorError:
            raise self._fail(event, f"has the tag {tag}, which is not plain data; remove it") from None
        except (ValueError, KeyError, OverflowError):
            raise self._fail(event, f"{event.value[:40]!r} is not a valid {tag.rpartition(':')[2]}") from None
        return Node(value, line, column)

    def _sequence(self, event: Any, depth: int) -> Node:
        node = Node([], event.start_mark.line + 1, event.start_mark.column + 1)
        while not isinstance(item := self._loader.get_event(), yaml.SequenceEndEvent):
            child = self._node(item, depth + 1)
            node.children[len(node.value)] = child
            node.value.append(child.value)
            node.values += child.values
        return node

    def _mapping(self, event: Any, depth: int) -> Node:
        node = Node({}, event.start_mark.line + 1, event.start_mark.column + 1)
        merged: list[Node] = []
        while not isinstance(key_event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._node(key_event, depth + 1)
            child = self._node(self._loader.get_event(), depth + 1)
            if key.value == "<<" and isinstance(key_event, yaml.ScalarEvent) and key_event.implicit[0]:
                merged += self._merge_sources(key_event, child)
                continue
            if not isinstance(key.value, Key):
                raise self._fail(key_event, "has a list or mapping as a key; use text")
            if key.value in node.children:
                raise self._fail(key_event, f"names the key {key.value!r} a second time; keep one of them")
            # A mapping's value is placed at its key: that is the line a reader looks for.
            node.children[key.value] = replace(child, line=key.line, column=key.column)
        for source in merged:
            for name, child in source.children.items():
                node.children.setdefault(name, child)
        node.value = {name: child.value for name, child in node.children.items()}
        node.values += sum(child.values for child in node.children.values())
        return node

    def _merge_sources(self, event: Any, child: Node) -> list[Node]:
        sources = list(child.children.values()) if isinstance(child.value, list) else [child]
        if not all(isinstance(source.value, dict) for source in sources):
            raise self._fail(event, "merges (<<) something that is not a mapping")
        return sources
