"""Why something does not come up, in plain words: messages of AWS, Kubernetes, Ray and vLLM, matched by a table."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import yaml

from kvrelay.ops.cluster.masking import Masker

_ERROR = re.compile(r"\b\w*(?:Error|Exception)\b|\bERROR\b|\berror:")
_LONGEST = 240
_MASKER = Masker()


@dataclass(frozen=True)
class Cause:
    """`said`: what is wrong; `mend`: what to do; `final`: no waiting mends it; `evidence`: words of the source."""

    name: str
    said: str
    mend: str
    final: bool = False
    evidence: str = ""

    def __post_init__(self) -> None:
        # The words are others', who may have written a token among them.
        for name in ("said", "mend", "evidence"):
            object.__setattr__(self, name, _MASKER.text(getattr(self, name)))


@dataclass(frozen=True)
class Known:
    """One row of causes.yaml."""

    name: str
    pattern: re.Pattern[str]
    said: str
    mend: str
    final: bool


@cache
def known_causes(kind: str) -> tuple[Known, ...]:
    """The rows of a list of causes.yaml, in order."""
    text = files("kvrelay.ops.wait").joinpath("causes.yaml").read_text(encoding="utf-8")
    return tuple(
        Known(row["name"], re.compile(row["pattern"]), row["said"], row["mend"], bool(row.get("final")))
        for row in yaml.safe_load(text)[kind]
    )


def cause(kind: str, text: str, context: Mapping[str, str], **more: str) -> Cause | None:
    """The first cause of that kind which `text` tells; None when none is known. `line` is its telling line."""
    for row in known_causes(kind):
        if match := row.pattern.search(text):
            words: dict[str, str] = defaultdict(str, context)
            words |= more
            words["line"] = telling_line(text, match)
            words |= {name: value.strip() for name, value in match.groupdict().items() if value}
            said, mend = row.said.format_map(words), row.mend.format_map(words)
            return Cause(row.name, said, mend, row.final, shortened(text))
    return None


def telling_line(text: str, match: re.Match[str] | None = None) -> str:
    """The line that a match stands in; of a traceback, its last line that names an error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if match is not None and not match.group().startswith("Traceback"):
        start = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        return shortened(text[start : end if end >= 0 else None])
    return shortened(next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1]))


def shortened(text: str) -> str:
    """On one line, and no longer than a message may be."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
