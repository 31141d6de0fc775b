"""The dated report to keep: what was claimed and seen, and what could not be shown and why."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from kvrelay.errors import UserError
from kvrelay.ops.proof import Verdict


@dataclass(frozen=True, slots=True)
class NotShown:
    """A claim that this run says nothing about. `blocked`: it was tried, and something stood in the way."""

    claim: str
    why: str
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Figure:
    """One number or name worth keeping."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Report:
    """One run."""

    deployment: str
    region: str
    at: datetime
    figures: Sequence[Figure]
    verdicts: Sequence[Verdict]
    not_shown: Sequence[NotShown]

    @property
    def unproved(self) -> list[str]:
        """Claims that did not hold, or could not be tried though they should."""
        failed = [each.claim for each in self.verdicts if not each.held]
        return failed + [each.claim for each in self.not_shown if each.blocked]

    def as_json(self) -> str:
        """{"deployment", "region", "at", "proved", "figures": {name: value}, "claims": [{"claim", "held", "saw"}],
        "not_shown": [{"claim", "why", "blocked"}]}."""
        return json.dumps(
            {
                "deployment": self.deployment,
                "region": self.region,
                "at": self.at.isoformat(timespec="seconds"),
                "proved": not self.unproved,
                "figures": {each.name: each.value for each in self.figures},
                "claims": [asdict(each) for each in self.verdicts],
                "not_shown": [asdict(each) for each in self.not_shown],
            },
            indent=2,
        )

    def as_markdown(self) -> str:
        """For people and pull requests."""
        head = [
            f"# {self.deployment}: prefill and decode, {self.at:%Y-%m-%d %H:%M} UTC",
            "",
            f"`kvrelay verify --target eks`, region {self.region}. "
            + (
                f"Not proved: {'; '.join(self.unproved)}."
                if self.unproved
                else "Every claim that could be tried holds."
            ),
            "",
        ]
        figures = [
            "| | |",
            "| --- | --- |",
            *(f"| {_cell(f.name)} | {_cell(f.value)} |" for f in self.figures),
            "",
        ]
        claims = [
            "| claim | | seen |",
            "| --- | --- | --- |",
            *(
                f"| {_cell(v.claim)} | {'holds' if v.held else '**fails**'} | {_cell(v.saw)} |"
                for v in self.verdicts
            ),
            "",
        ]
        missing = ["Not shown:", "", *(f"- {n.claim}: {n.why}." for n in self.not_shown), ""]
        return "\n".join([*head, *figures, *claims, *(missing if self.not_shown else [])])

    def keep(self, folder: Path) -> list[Path]:
        """Writes both forms, named by deployment and time. The folder is there: `check_folder`."""
        stem = f"verify-{self.deployment}-{self.at:%Y-%m-%dT%H%M%SZ}"
        kept = []
        for suffix, text in ((".md", self.as_markdown()), (".json", self.as_json() + "\n")):
            path = folder / f"{stem}{suffix}"
            path.write_text(text)
            kept.append(path)
        return kept


def check_folder(folder: Path) -> None:
    """Makes the folder, and sees that it can be written to: asked before a proof that takes minutes."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserError(
            f"--report: {folder} can't be written to ({error.strerror}); name another folder"
        ) from None


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
