"""Packs the serving software for a machine with GPUs and without a network: parts to copy there and to unpack.

    python benchmarks/gpu/pack.py [--python 3.12] [--to .gpu] [--part-mb 56]
    # there, with all parts under parts/:  python benchmarks/gpu/parts.py parts /tmp/site; export PYTHONPATH=/tmp/site:.

`pack.yaml` beside this file says what is needed, what the machine has and what may be left out. Needs uv, and xz.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from benchmarks.gpu.parts import split

HERE = Path(__file__).parent
# The glibc of the machine: 2.39 is Ubuntu 24.04's.
PLATFORM = "x86_64-manylinux_2_39"


@dataclass(frozen=True)
class Plan:
    """What pack.yaml says."""

    requirements: Sequence[str]
    there: frozenset[str]
    without: Sequence[str]
    drop: Sequence[str]
    torch: str

    @classmethod
    def read(cls, path: Path = HERE / "pack.yaml") -> Plan:
        said: dict[str, Any] = yaml.safe_load(path.read_text())
        there = frozenset(map(normal, said["there"]))
        return cls(said["requirements"], there, said["without"], said["drop"], str(said["torch"]))

    def carried(self, resolved: Iterable[str]) -> list[str]:
        """The `name==version` lines that must travel: not there, not left out, and no part of torch's CUDA."""
        left_out = self.there | frozenset(map(normal, self.without))
        return [
            line
            for line in resolved
            if (name := normal(line.partition("==")[0])) not in left_out and not name.startswith("nvidia-")
        ]


def normal(name: str) -> str:
    """A package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def resolve(plan: Plan, python: str) -> list[str]:
    """Every package with its version, as the machine's Python and its torch need them."""
    overrides = [f"{name}; sys_platform == 'never'" for name in plan.without]
    # vLLM pins these; the machine's own serve as well.
    overrides += ["numba", "setuptools"]
    with tempfile.TemporaryDirectory() as folder:
        written = {
            "requirements": plan.requirements,
            "overrides": overrides,
            "constraints": [f"torch=={plan.torch}"],
        }
        files = {name: Path(folder, name) for name in written}
        for name, lines in written.items():
            files[name].write_text("\n".join(lines) + "\n")
        found = subprocess.run(
            [
                "uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:",
                "--python-version", python, "--python-platform", PLATFORM,
                "--override", files["overrides"], "--constraint", files["constraints"], files["requirements"],
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    return [line for line in found.stdout.splitlines() if "==" in line]


def install(packages: Sequence[str], python: str, site: Path) -> None:
    """Wheels of `packages`, and nothing that they ask for, into the folder `site`."""
    subprocess.run(
        [
            "uv", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--link-mode", "copy",
            "--python-version", python, "--python-platform", PLATFORM, "--target", site, *packages,
        ],
        check=True,
    )  # fmt: skip


def prune(site: Path, patterns: Sequence[str]) -> int:
    """Removes what matches the glob `patterns` (relative to `site`). Returns the bytes that are left."""
    for pattern in patterns:
        for path in (
            site.rglob(pattern.removeprefix("*/")) if pattern.startswith("*/") else site.glob(pattern)
        ):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and not path.is_symlink())


def compress(site: Path, archive: Path) -> None:
    """`site` as a tar, sorted so that alike stands by alike, compressed with xz on every core."""
    names = sorted((path.relative_to(site) for path in site.rglob("*") if not path.is_dir()), key=_likeness)
    listing = "\0".join(map(str, names))
    tar = ["tar", "--create", "--owner=0", "--group=0", f"--directory={site}", "--null", "--files-from=-"]
    with archive.open("wb") as out:
        packing = subprocess.Popen(tar, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        xz = ["xz", "-6", "--threads=0", "--block-size=64MiB"]
        squeezing = subprocess.Popen(xz, stdin=packing.stdout, stdout=out)
        assert packing.stdin is not None
        packing.stdin.write(listing.encode())
        packing.stdin.close()
        if packing.wait() or squeezing.wait():
            raise SystemExit("pack: tar or xz failed")


def _likeness(path: Path) -> tuple[str, str]:
    return path.suffix, str(path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", default="3.12", help="the machine's Python (default: %(default)s)")
    parser.add_argument(
        "--to", type=Path, default=Path(".gpu"), help="folder of the parts (default: %(default)s)"
    )
    parser.add_argument("--part-mb", type=float, default=56, help="at most so many 10^6 bytes each")
    asked = parser.parse_args()
    console, began = Console(), time.monotonic()
    plan = Plan.read()
    packages = plan.carried(resolve(plan, asked.python))
    console.print(f"{len(packages)} packages travel")
    work = asked.to / "site"
    shutil.rmtree(asked.to, ignore_errors=True)
    install(packages, asked.python, work)
    left = prune(work, plan.drop)
    console.print(f"{left / 1e6:,.0f} MB unpacked; compressing, {time.monotonic() - began:.0f} s so far")
    archive = asked.to / "site.tar.xz"
    compress(work, archive)
    made = split(archive, asked.to, round(asked.part_mb * 1e6))
    sizes = ", ".join(f"{path.stat().st_size / 1e6:.1f}" for path in made)
    (asked.to / "packages.json").write_text(json.dumps(packages, indent=1))
    console.print(
        f"{archive.stat().st_size / 1e6:,.1f} MB in {len(made)} parts: {sizes} MB, {asked.to}/0 ..."
    )
    archive.unlink()
    if os.environ.get("KEEP_SITE") is None:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
