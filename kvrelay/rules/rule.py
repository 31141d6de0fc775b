"""What a rule is, and what it finds."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from kvrelay.rules.value import Value
from kvrelay.yaml_source import Document, YamlPath

if TYPE_CHECKING:
    from kvrelay.rules.subject import Subject

Part = TypeVar("Part")


class Level(StrEnum):
    """How sure a rule is: an error is a fault whatever else is true, a warning very likely is one."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault: which rule it breaks, where, the value found, what is wrong with it and what to do."""

    rule: str
    name: str
    level: Level
    file: str
    line: int
    column: int
    path: str
    found: str
    problem: str
    mend: str
    acknowledged: str | None = None
    """Why someone accepts it, as they wrote it in the file."""
    document: Document | None = field(default=None, repr=False, compare=False)
    value_path: YamlPath = field(default=(), repr=False, compare=False)

    @property
    def counts(self) -> bool:
        """Whether it decides the exit code: an acknowledged finding does not."""
        return self.acknowledged is None

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {self.rule} {where}{self.problem}. {self.mend}"


class Rule(ABC, Generic[Part]):
    """A rule that one part of a deployment must keep.

    The docstring gives the reason, `source` where it was read. A subclass says in `parts` which parts of a
    subject it looks at, and in `check`, a pure function, what is wrong with one of them.
    """

    number: ClassVar[str]
    level: ClassVar[Level]
    mend: ClassVar[str]
    source: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        """The rule's name: its class's, in words."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()

    @abstractmethod
    def parts(self, subject: Subject) -> Iterable[Part]:
        """The parts of `subject` that this rule is about."""

    @abstractmethod
    def check(self, part: Part) -> Iterator[Finding]:
        """What is wrong with `part`; nothing when it keeps the rule."""

    def findings(self, subject: Subject) -> Iterator[Finding]:
        """All that is wrong with `subject`."""
        for part in self.parts(subject):
            yield from self.check(part)

    def found(self, value: Value, problem: str, mend: str | None = None) -> Finding:
        """A finding at `value`. `problem` is a sentence about it without the full stop."""
        place = value.place
        return Finding(
            rule=self.number,
            name=self.name(),
            level=self.level,
            file=place.file,
            line=place.line,
            column=place.column,
            path=value.path_text,
            found=value.shown,
            problem=problem,
            mend=mend or self.mend,
            document=value.document,
            value_path=value.path,
        )
