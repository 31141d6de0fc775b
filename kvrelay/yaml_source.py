"""YAML that remembers where each value stands, and refuses files built to exhaust the reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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
MAX_DOCUMENTS = 2_000
# Longer numbers are nobody's setting, and base-60 ones take quadratic time to read.
MAX_NUMBER_LENGTH = 400

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"
_PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float")}
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
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


@dataclass(frozen=True, slots=True)
class Origin:
    """Where text that stands inside another file begins there.

    `literal` text is a block (`|`) whose lines are lines of that file; other text has this one place.
    """

    line: int
    column: int
    literal: bool

    def place(self, line: int, column: int) -> tuple[int, int]:
        """The outer file's line and column for a position (both from 0) in the inner text."""
        return (self.line + line, self.column + column) if self.literal else (self.line, self.column)


_WHOLE_FILE = Origin(1, 1, literal=True)


@dataclass(slots=True)
class Node:
    """One value with its position. `children` maps a mapping's keys, or a list's indices, to their nodes."""

    value: Any
    line: int
    column: int
    children: dict[Key, Node] = field(default_factory=dict)
    values: int = 1
    text_origin: Origin | None = None
    """Where the lines of a literal block of text stand."""

    def placed_at(self, line: int, column: int) -> Node:
        """The same value with another position."""
        return Node(self.value, line, column, self.children, self.values, self.text_origin)


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

    def node(self, path: Sequence[Key]) -> Node | None:
        """The node at `path`, or None when the path leads nowhere."""
        node: Node | None = self.root
        for key in path:
            if node is None:
                return None
            node = node.children.get(key)
        return node

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


def read_document(path: Path, most_values: int = MAX_VALUES, most_bytes: int = MAX_BYTES) -> Document:
    """The one document of a file. Raises InvalidFileError when there is none, or more than one."""
    documents = parse_documents(read_text(path, most_bytes), str(path), most_values=most_values)
    if len(documents) != 1:
        raise InvalidFileError([f"{path}: holds {len(documents)} YAML documents; exactly one is needed"])
    return documents[0]


def read_documents(path: Path) -> list[Document]:
    """All non-empty documents of a file. Raises InvalidFileError, one line, when it can't be read."""
    return parse_documents(read_text(path), str(path))


def read_text(path: Path, most_bytes: int = MAX_BYTES) -> str:
    """The text of a file or pipe of at most `most_bytes`. Raises InvalidFileError when it can't be read."""
    try:
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise InvalidFileError([f"{path}: can't be read: {error.strerror}"]) from None
    except ValueError:
        raise InvalidFileError([f"{str(path)!r}: can't be a file's name; correct it"]) from None
    return decode_text(content, str(path), most_bytes)


def decode_text(content: bytes, file: str, most_bytes: int = MAX_BYTES) -> str:
    """UTF-8 bytes as text. Raises InvalidFileError when they are too many, or not UTF-8."""
    if len(content) > most_bytes:
        raise InvalidFileError([f"{file}: is larger than {most_bytes // 1024} KiB; is it the right file?"])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidFileError([f"{file}:{line}: is not UTF-8 text; save it as UTF-8"]) from None


def parse_documents(
    text: str, file: str, origin: Origin = _WHOLE_FILE, most_values: int = MAX_VALUES
) -> list[Document]:
    """All non-empty documents in `text`; `file` names it in messages, `origin` says where it stands there."""
    try:
        roots = list(_Composer(text, file, origin, most_values).roots())
    except yaml.reader.ReaderError as error:
        line, _ = origin.place(text.count("\n", 0, error.position), 0)
        code = ord(error.character) if isinstance(error.character, str) else error.character
        raise InvalidFileError(
            [f"{file}:{line}: holds the character U+{code:04X}, which YAML does not allow; remove it"]
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, _ = origin.place(mark.line if mark else 0, 0)
        raise InvalidFileError([f"{file}:{line}: is not YAML: {error.problem or error.context}"]) from None
    except yaml.YAMLError as error:
        raise InvalidFileError([f"{file}: is not YAML: {' '.join(str(error).split())}"]) from None
    return [Document(file, root) for root in roots if root.value is not None]


class _Composer:
    """Builds nodes from parser events, without recursion into hostile depth and without expanding aliases."""

    def __init__(self, text: str, file: str, origin: Origin, most_values: int) -> None:
        self._loader = _LOADER(text)
        self._text = text
        self._file = file
        self._origin = origin
        self._most_values = most_values
        self._resolver: Any = Resolver()
        self._constructor = SafeConstructor()
        self._anchors: dict[str, Node] = {}
        self._values = 0
        self._expanded = 0
        self._scalars: dict[tuple[str, str], Any] = {}
        self._documents = 0
        self._lines: list[str] = []

    def roots(self) -> Iterator[Node]:
        try:
            while self._loader.check_event():
                event = self._loader.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    self._anchors = {}
                    self._documents += 1
                    if self._documents > MAX_DOCUMENTS:
                        raise self._fail(
                            event, f"holds more than {MAX_DOCUMENTS:,} documents; split the file"
                        )
                    root = self._node(self._loader.get_event(), depth=1)
                    self._expanded += root.values
                    self._hold(event, self._expanded)
                    yield root
        finally:
            self._loader.dispose()

    def _fail(self, event: Any, problem: str) -> InvalidFileError:
        return InvalidFileError([f"{self._file}:{self._place(event)[0]}: {problem}"])

    def _place(self, event: Any) -> tuple[int, int]:
        return self._origin.place(event.start_mark.line, event.start_mark.column)

    def _count(self, event: Any, values: int) -> None:
        """Whatever costs time or memory counts: each value, each alias, each key that a merge copies."""
        self._values += values
        if self._values > self._most_values:
            raise self._fail(event, f"holds more than {self._most_values:,} values; is it the right file?")

    def _hold(self, event: Any, expanded: int) -> None:
        if expanded > self._most_values:
            raise self._fail(
                event, f"holds more than {self._most_values:,} values once its aliases are followed"
            )

    def _node(self, event: Any, depth: int) -> Node:
        self._count(event, 1)
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
        self._hold(event, node.values)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: Any) -> Node:
        line, column = self._place(event)
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in _KEPT_AS_TEXT or tag == _MERGE:
            return Node(event.value, line, column, text_origin=self._text_origin(event))
        if tag not in _PLAIN_TAGS:
            raise self._fail(event, f"has the tag {tag}, which is not plain data; remove it")
        if len(event.value) > MAX_NUMBER_LENGTH:
            raise self._not_valid(event, tag)
        try:
            value = self._plain(tag, event.value)
        except (ValueError, KeyError, OverflowError):
            raise self._not_valid(event, tag) from None
        return Node(value, line, column)

    def _plain(self, tag: str, text: str) -> Any:
        """A number, switch or null. Most of them repeat."""
        if (tag, text) not in self._scalars:
            self._scalars[tag, text] = self._constructor.construct_object(yaml.ScalarNode(tag, text))
            self._constructor.constructed_objects.clear()
        return self._scalars[tag, text]

    def _not_valid(self, event: Any, tag: str) -> InvalidFileError:
        return self._fail(event, f"{event.value[:40]!r} is not a valid {tag.rpartition(':')[2]}")

    def _text_origin(self, event: Any) -> Origin | None:
        """Where the text of a literal block begins: on the line after its `|`, indented. None for other text."""
        if event.style != "|" or not self._origin.literal:
            return None
        first = event.value.lstrip("\n").split("\n", 1)[0]
        self._lines = self._lines or _LINE_BREAK.split(self._text)
        index = event.start_mark.line + 1 + len(event.value) - len(event.value.lstrip("\n"))
        if not first or index >= len(self._lines):
            return None
        indentation = max(0, len(self._lines[index]) - len(first))
        return Origin(self._place(event)[0] + 1, self._origin.column + indentation, literal=True)

    def _sequence(self, event: Any, depth: int) -> Node:
        node = Node([], *self._place(event))
        while not isinstance(item := self._loader.get_event(), yaml.SequenceEndEvent):
            child = self._node(item, depth + 1)
            node.children[len(node.value)] = child
            node.value.append(child.value)
            node.values += child.values
        return node

    def _mapping(self, event: Any, depth: int) -> Node:
        node = Node({}, *self._place(event))
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
            node.children[key.value] = child.placed_at(key.line, key.column)
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
        self._count(event, sum(len(source.children) for source in sources))
        return sources
