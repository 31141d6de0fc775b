"""Findings as text, JSON, SARIF 2.1.0 and GitHub annotations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any

import click

from kvrelay.rules.checking import count
from kvrelay.rules.registry import RULES
from kvrelay.rules.rule import Finding, Level, Rule

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_COLORS = {Level.ERROR: "red", Level.WARNING: "yellow"}


def as_text(findings: Sequence[Finding]) -> str:
    """For people: a finding in two lines, then how many there are. Empty when nothing was found."""
    lines = []
    for finding in findings:
        if finding.counts:
            level = click.style(f"{finding.level} {finding.rule}", fg=_COLORS[finding.level], bold=True)
            where = f"{finding.path}: " if finding.path else ""
            lines.append(f"{finding.file}:{finding.line}:{finding.column}: {level} {where}{finding.problem}")
            lines.append(f"    {finding.mend}. ({finding.name})")
    total = _total(findings)
    return "\n".join([*lines, total] if total else lines)


def _total(findings: Sequence[Finding]) -> str:
    counted = [_counted(count(findings, level), str(level)) for level in Level]
    accepted = sum(1 for finding in findings if not finding.counts)
    return ", ".join([*filter(None, counted), *([f"{accepted} acknowledged"] if accepted else [])])


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""


def as_json(findings: Iterable[Finding]) -> str:
    """For programs: a list of mappings."""
    return json.dumps([_plain(finding) for finding in findings], indent=2)


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "name": finding.name,
        "level": str(finding.level),
        "file": finding.file,
        "line": finding.line,
        "column": finding.column,
        "path": finding.path,
        "found": finding.found,
        "problem": finding.problem,
        "mend": finding.mend,
        "acknowledged": finding.acknowledged,
    }


def as_github(findings: Iterable[Finding]) -> str:
    """Workflow commands, which GitHub shows beside the lines of a pull request."""
    return "\n".join(_command(finding) for finding in findings if finding.counts)


def _command(finding: Finding) -> str:
    properties = {
        "file": PurePath(finding.file).as_posix(),
        "line": str(finding.line),
        "col": str(finding.column),
        "title": f"{finding.rule} {finding.name}",
    }
    listed = ",".join(f"{name}={_escaped(value, ',:')}" for name, value in properties.items())
    return f"::{finding.level} {listed}::{_escaped(_message(finding))}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _message(finding: Finding) -> str:
    where = f"{finding.path}: " if finding.path else ""
    return f"{where}{finding.problem}. {finding.mend}."


def as_sarif(findings: Iterable[Finding], version: str) -> str:
    """SARIF 2.1.0, which code scanning reads: all rules, and a result for each finding."""
    index = {rule.number: position for position, rule in enumerate(RULES)}
    driver = {
        "name": "kvrelay",
        "version": version,
        "rules": [_sarif_rule(rule) for rule in RULES],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, index[finding.rule]) for finding in findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _sarif_rule(rule: Rule[Any]) -> dict[str, Any]:
    reason = " ".join((rule.__doc__ or "").split())
    described = {
        "id": rule.number,
        "name": type(rule).__name__,
        "shortDescription": {"text": rule.name().replace("-", " ")},
        "fullDescription": {"text": reason},
        "help": {"text": f"{rule.mend}. Source: {rule.source}"},
        "defaultConfiguration": {"level": str(rule.level)},
    }
    if rule.source.startswith("https://") and " " not in rule.source:
        described["helpUri"] = rule.source
    return described


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": str(finding.level),
        "message": {"text": _message(finding)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(finding.file)},
                    "region": {"startLine": finding.line, "startColumn": finding.column},
                },
                "logicalLocations": [{"fullyQualifiedName": finding.path or "document"}],
            }
        ],
        "partialFingerprints": {"rulePath/v1": f"{finding.rule}:{finding.path}"},
    }
    if finding.acknowledged is not None:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.acknowledged}]
    return result


def _uri(file: str) -> str:
    from urllib.parse import quote

    return quote(PurePath(file).as_posix())
