"""Where torch comes from: a CPU build when one can be had, else PyPI's ordinary one; never both."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

# Folders that pip or uv would look into as well.
FOLDER_VARIABLES = ("UV_FIND_LINKS", "PIP_FIND_LINKS")
# Only PyPI's build of torch needs these.
_CUDA_PREFIXES = ("nvidia-", "cuda-")


@dataclass(frozen=True, slots=True)
class TorchSource:
    """One way to install torch: what to ask uv for, and what to tell the user."""

    name: str
    requirement: str
    cpu_only: bool
    uv_options: tuple[str, ...] = field(default=())

    def requirements(self, locked: Sequence[str]) -> list[str]:
        """The locked requirements with this torch, and CUDA's libraries only where this torch needs them."""
        return [
            self.requirement if line.startswith("torch==") else line
            for line in locked
            if not (self.cpu_only and line.startswith(_CUDA_PREFIXES))
        ]


def find_torch(version: str, python: str, uv: Path, folders: Iterable[Path] = ()) -> TorchSource:
    """Looks in `folders` and in pip's and uv's wheel folders, asks PyTorch's CPU index, settles for PyPI.

    `version` is torch's, such as 2.11.0; `python` the interpreter's, such as 3.11.
    """
    named = [Path(text) for variable in FOLDER_VARIABLES for text in os.environ.get(variable, "").split()]
    tag = f"cp{python.replace('.', '')}"
    for folder in (*folders, *named):
        for wheel in sorted(folder.glob("torch-*.whl")) if folder.is_dir() else ():
            if unquote(wheel.name).startswith(f"torch-{version}+cpu-{tag}-"):
                return TorchSource(f"CPU build from {folder}", f"torch @ {wheel.resolve().as_uri()}", True)
    cpu_build = TorchSource(
        "CPU build from PyTorch's index", f"torch=={version}+cpu", True, ("--torch-backend", "cpu")
    )
    if _can_be_had(cpu_build, python, uv):
        return cpu_build
    return TorchSource(
        "PyPI's build with CUDA's libraries (about 3 GB more; no CPU build was in reach)",
        f"torch=={version}",
        False,
    )


def _can_be_had(source: TorchSource, python: str, uv: Path) -> bool:
    command = [
        str(uv), "pip", "compile", "--quiet", "--no-header", "--no-deps", "--python-version", python,
        *source.uv_options, "-",
    ]  # fmt: skip
    # One quick question: a machine without that index must not wait for it.
    limits = {"UV_HTTP_TIMEOUT": "10", "UV_HTTP_RETRIES": "0"}
    try:
        result = subprocess.run(
            command,
            input=source.requirement,
            env=os.environ | limits,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0
