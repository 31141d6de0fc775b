"""What probes of this machine have asked for, from before they ask until nothing of it is held."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

JOURNAL = Path(__file__).parents[3] / ".kvrelay" / "probes"


@dataclass(frozen=True)
class Entry:
    """What the journal keeps of one reservation, from before it is asked for until it is cancelled."""

    token: str
    region: str
    deployment: str
    instance_type: str
    zone: str
    count: int
    began: str

    def file(self, journal: Path) -> Path:
        """Where it stands."""
        return journal / f"{self.token}.json"


def unfinished(region: str, deployment: str, journal: Path = JOURNAL) -> bool:
    """Whether a probe of this machine began and never said that it ended."""
    return any((entry.region, entry.deployment) == (region, deployment) for _, entry in entries(journal))


def entries(journal: Path) -> list[tuple[Path, Entry]]:
    """What the journal holds; a file that was cut off while it was written names nothing that was asked for."""
    found = []
    for path in sorted(journal.glob("*.json")):
        with contextlib.suppress(OSError, ValueError, TypeError):
            found.append((path, Entry(**json.loads(path.read_text()))))
    return found


def write(journal: Path, entry: Entry) -> None:
    """Safe on disk when this returns."""
    journal.mkdir(parents=True, exist_ok=True)
    with entry.file(journal).open("w") as file:
        json.dump(asdict(entry), file)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(journal, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
