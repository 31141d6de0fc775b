"""Findings that someone accepts, with the reason why, written beside what they are about.

deployment.yaml: `acknowledge: {KV003: why}`, for all that is checked with it. A Kubernetes object: the annotation
`kvrelay.io/acknowledge-KV003: why`, for that object and the Serve config in it. A Serve config: a comment line
`# acknowledge KV003: why`, for that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kvrelay.rules.manifests import Manifest
from kvrelay.rules.rule import Finding
from kvrelay.rules.value import Value
from kvrelay.yaml_source import Document

ANNOTATION = "kvrelay.io/acknowledge-"
_COMMENT = re.compile(r"^[ \t]*#[ \t]*acknowledge[ \t]+([A-Za-z]{2}\d{3})[ \t]*:(.*)$", re.MULTILINE)
_FEWEST_WORDS = 2


@dataclass(frozen=True)
class Acknowledgement:
    """A rule whose findings at and below a value someone accepts."""

    rule: str
    reason: str
    at: Value
    everywhere: bool = False

    @property
    def has_reason(self) -> bool:
        return len(self.reason.split()) >= _FEWEST_WORDS

    def covers(self, finding: Finding) -> bool:
        if finding.rule != self.rule or not self.has_reason:
            return False
        here = finding.document is self.at.document
        return self.everywhere or (here and finding.value_path[: len(self.at.path)] == self.at.path)


def of_deployment(settings: Value) -> Iterator[Acknowledgement]:
    """Those of deployment.yaml."""
    for rule, reason in settings["acknowledge"].entries():
        yield Acknowledgement(rule, reason.text or "", reason, everywhere=True)


def of_manifest(manifest: Manifest, serve: Value | None) -> Iterator[Acknowledgement]:
    """Those of a Kubernetes object, for it and for the Serve config inside it."""
    for key, reason in manifest.value.at("metadata", "annotations").entries():
        if key.startswith(ANNOTATION):
            rule = key.removeprefix(ANNOTATION)
            for value in (manifest.value, serve):
                if value is not None:
                    yield Acknowledgement(rule, reason.text or "", value)
    if serve is not None:
        yield from of_comments(manifest.spec["serveConfigV2"].text or "", serve.document)


def of_comments(text: str, document: Document) -> Iterator[Acknowledgement]:
    """Those in the comments of a Serve config's text."""
    for rule, reason in _COMMENT.findall(text):
        yield Acknowledgement(rule, reason.strip(), Value.root(document))


def by_rule(acknowledgements: list[Acknowledgement]) -> dict[str, list[Acknowledgement]]:
    """Acknowledgements by the rule that they accept findings of."""
    grouped: dict[str, list[Acknowledgement]] = {}
    for each in acknowledgements:
        grouped.setdefault(each.rule, []).append(each)
    return grouped


def acknowledged(finding: Finding, grouped: dict[str, list[Acknowledgement]]) -> Finding:
    """The finding with the reason why someone accepts it, if someone does."""
    for acknowledgement in grouped.get(finding.rule, []):
        if acknowledgement.covers(finding):
            return replace(finding, acknowledged=acknowledgement.reason)
    return finding
