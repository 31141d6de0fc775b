"""Draws docs/pictures/wait-*.svg: the live view of `kvrelay wait` as a terminal shows it, from simulated worlds.

    PYTHONPATH=. python docs/wait_pictures.py

The worlds are those of the tests (tests/ops/recorded/world.py); the view is the one that the command draws.
"""

import io
from pathlib import Path

from rich.console import Console

from kvrelay.ops.wait.judging import judge
from kvrelay.ops.wait.snapshot import Snapshot
from kvrelay.ops.wait.view import table
from tests.ops.recorded import world

PENDING = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient vpc.amazonaws.com/efa."
PICTURES = {
    "wait-on-its-way": world.loading(),
    "wait-late": world.with_worker(world.unscheduled(PENDING)),
    "wait-served": world.serving(),
}


def picture(name: str, snapshot: Snapshot) -> str:
    """The view as SVG; the same bytes each time."""
    console = Console(record=True, width=96, file=io.StringIO(), emoji=False, force_terminal=True)
    title = f"{world.WANTED.name} in {world.WANTED.region}"
    console.print(table(title, judge(snapshot, world.WANTED), snapshot.unread))
    return console.export_svg(title="kvrelay wait", unique_id=name)


def main() -> None:
    """Writes every picture."""
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    for name, snapshot in PICTURES.items():
        (folder / f"{name}.svg").write_text(picture(name, snapshot))


if __name__ == "__main__":
    main()
