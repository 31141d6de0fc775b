"""Checks everything that is known of a deployment against every rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from kvrelay.rules.acknowledgements import acknowledged, by_rule
from kvrelay.rules.registry import RULES
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.subject import Subject

MOST_FINDINGS_OF_A_RULE = 50
"""A file that breaks one rule in more places than this is told about the first ones."""


def check_all(subject: Subject, rules: Sequence[Rule[Any]] = RULES) -> list[Finding]:
    """Every finding, by file and line; the acknowledged ones with their reason. Pure: reads and changes nothing."""
    accepted = by_rule(subject.acknowledgements)
    findings = [
        acknowledged(finding, accepted)
        for rule in rules
        for finding in islice(rule.findings(subject), MOST_FINDINGS_OF_A_RULE)
    ]
    return sorted(_once(findings, subject), key=lambda each: (each.file, each.line, each.column, each.rule))


def count(findings: Iterable[Finding], level: Level) -> int:
    """How many findings of a level nobody acknowledged."""
    return sum(1 for finding in findings if finding.counts and finding.level is level)


def _once(findings: list[Finding], subject: Subject) -> list[Finding]:
    """Without what a deployment's rendered Serve config repeats: a fault is told where a person wrote it."""
    if not subject.deployments:
        return findings
    written = {id(config.value.document) for config in subject.serve_configs if config.cluster is None}
    rendered = {id(config.value.document) for config in subject.serve_configs if config.cluster is not None}
    told = {(each.rule, each.value_path) for each in findings if id(each.document) in written}
    return [
        each
        for each in findings
        if id(each.document) not in rendered or (each.rule, each.value_path) not in told
    ]
