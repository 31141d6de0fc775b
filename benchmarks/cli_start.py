"""Whole-process time of quick commands beside `python -c pass`, taken in turns so that load falls on all alike.

python benchmarks/cli_start.py [--rounds 9]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOOR = "python -c pass"
# Compiled modules are kept, as everywhere where nobody forbids it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
COMMANDS = {
    FLOOR: ["-c", "pass"],
    "kvrelay check": ["-m", "kvrelay", "check"],
    "kvrelay plan": ["-m", "kvrelay", "plan"],
    "kvrelay plan --output json": ["-m", "kvrelay", "plan", "--output", "json"],
}
_RUN_CLI = ["-c", "import sys; sys.argv[0] = 'kvrelay'; from kvrelay.cli import main; main()"]


def once(arguments: list[str]) -> tuple[float, float]:
    """Elapsed and processor seconds of one process."""
    if arguments[:2] == ["-m", "kvrelay"]:
        arguments = [*_RUN_CLI, *arguments[2:]]
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    elapsed, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return elapsed, used


def main() -> None:
    """Prints the medians, and each command's ratio to the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            taken[name].append(once(arguments))
    floor = statistics.median(elapsed for elapsed, _ in taken[FLOOR])
    lines = [f"{'command':30} {'elapsed s':>10} {'processor s':>12} {'x floor':>8}"]
    for name, times in taken.items():
        elapsed = statistics.median(first for first, _ in times)
        used = statistics.median(second for _, second in times)
        lines.append(f"{name:30} {elapsed:10.3f} {used:12.3f} {elapsed / floor:8.1f}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
