"""AK: acknowledgements that acknowledge nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.kinds import SubjectRule
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.subject import Subject

_NUMBER = re.compile(r"[A-Z]{2}\d{3}")


class UnknownRule(SubjectRule):
    """An acknowledgement of a rule that does not exist accepts nothing: most often its number is misspelled."""

    number = "AK001"
    level = Level.ERROR
    mend = "Correct the number (docs/rules.md lists them) or remove the line"
    source = "docs/rules.md"

    def check(self, part: Subject) -> Iterator[Finding]:
        from kvrelay.rules.registry import NUMBERS

        for each in part.acknowledgements:
            if each.rule not in NUMBERS:
                shown = each.rule if _NUMBER.fullmatch(each.rule) else repr(each.rule[:60])
                yield self.found(each.at, f"{shown} is acknowledged, but is no rule")


class NoReason(SubjectRule):
    """The next reader must know why a finding was accepted: an acknowledgement without a reason does not count."""

    number = "AK002"
    level = Level.ERROR
    mend = "Write in a few words why you accept it"
    source = "docs/rules.md"

    def check(self, part: Subject) -> Iterator[Finding]:
        for each in part.acknowledgements:
            if not each.has_reason:
                yield self.found(each.at, f"{each.rule[:60]} is acknowledged without a reason")


RULES: tuple[Rule[Any], ...] = (UnknownRule(), NoReason())
