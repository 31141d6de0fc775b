"""Runs in a Ray pod: the engines' last lines, from the logs of Ray's session, which `kubectl logs` does not show.

    python3 -c '<this>' LINES [FOLDER]

Prints the milestones of each file (weights loaded, engine started, hands shaken) and its last LINES lines, each behind
its file's name. Reads no more than the last megabyte of a file. Needs Python alone.
"""

# ruff: noqa: T201 - its output is the answer

import os
import re
import sys
from pathlib import Path

MILESTONES = re.compile(
    r"Starting to load model|Loading weights took|Model loading took|init engine \(|NIXL compatibility check|Traceback"
)
WANTED = re.compile(r"^(replica_.*\.log|worker-.*\.(out|err))$")
MOST = 2**20


def main() -> None:
    lines = int(sys.argv[1])
    folder = Path(sys.argv[2] if len(sys.argv) > 2 else "/tmp/ray/session_latest/logs")
    paths = [path for path in folder.rglob("*") if WANTED.match(path.name) and path.is_file()]
    for path in sorted(paths, key=lambda path: path.stat().st_mtime)[-12:]:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - MOST))
            text = file.read(MOST).decode(errors="replace").splitlines()
        shown = [line for line in text[:-lines] if MILESTONES.search(line)] + text[-lines:]
        for line in shown:
            print(f"{path.name}: {line[:500]}")


main()
