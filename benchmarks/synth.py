"""Times whole `cdk synth` of this app beside the smallest possible CDK Python app, in turn, in one run.

    python benchmarks/synth.py [--runs 5]

Warm: jsii has unpacked its packages before, Python has compiled ours. Cold: neither has. "CPU" is user plus system
time of the command and all its children; quote the ratio, not the seconds: they depend on the machine.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

REPOSITORY = Path(__file__).parents[1]

SMALLEST_APP = """\
import aws_cdk as cdk
from aws_cdk import aws_s3 as s3

app = cdk.App()
s3.Bucket(cdk.Stack(app, "Smallest"), "Bucket")
app.synth()
"""


def main() -> None:
    """Prints one row for each of cold and warm, with and without CDK's own template validation."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each app, after one that isn't")
    runs = parser.parse_args().runs

    table = Table("start", "validation", "ours CPU s", "smallest CPU s", "ratio", "ours wall s", "ratio")
    with tempfile.TemporaryDirectory() as folder:
        smallest = Path(folder) / "smallest"
        smallest.mkdir()
        (smallest / "app.py").write_text(SMALLEST_APP)
        shutil.copy(REPOSITORY / "cdk.json", smallest)
        for start in ("warm", "cold"):
            for validation in ("false", "true"):
                pairs = [
                    (
                        synth(REPOSITORY, Path(folder), validation, cold=start == "cold"),
                        synth(smallest, Path(folder), validation, cold=start == "cold"),
                    )
                    for _ in range(runs + 1)
                ][1:]
                table.add_row(start, validation, *_figures(pairs))
    Console().print(table)


def synth(app: Path, folder: Path, validation: str, *, cold: bool) -> tuple[float, float]:
    """CPU and wall seconds of one `cdk synth`."""
    caches = folder / "caches"
    if cold:
        shutil.rmtree(caches, ignore_errors=True)
    output = folder / "cdk.out"
    shutil.rmtree(output, ignore_errors=True)
    environment = {
        **os.environ,
        "PATH": f"{REPOSITORY}/.venv/bin:{os.environ['PATH']}",
        "CDK_VALIDATION": validation,
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(caches / "jsii"),
        "PYTHONPYCACHEPREFIX": str(caches / "python"),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [
        str(REPOSITORY / "node_modules/.bin/cdk"),
        "synth",
        "--quiet",
        "--no-notices",
        "--app",
        "python app.py",
        "--output",
        str(output),
    ]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, cwd=app, env=environment, check=True, capture_output=True)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, wall


def _figures(pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> list[str]:
    median = statistics.median
    return [
        f"{median(ours[0] for ours, _ in pairs):.2f}",
        f"{median(floor[0] for _, floor in pairs):.2f}",
        f"{median(ours[0] / floor[0] for ours, floor in pairs):.2f}",
        f"{median(ours[1] for ours, _ in pairs):.2f}",
        f"{median(ours[1] / floor[1] for ours, floor in pairs):.2f}",
    ]


if __name__ == "__main__":
    main()
