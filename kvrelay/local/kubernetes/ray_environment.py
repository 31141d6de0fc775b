"""The Python environment that real Ray heads run from: Ray Serve alone, apart from kvrelay's own packages."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kvrelay.local.kubernetes.tools import SOURCES, ToolsMissingError

FOLDER = SOURCES.parent / ".venv-ray"
_REQUIREMENTS = SOURCES / "ray" / "requirements.txt"
_STAMP = FOLDER / ".kvrelay-requirements"


def ray_environment() -> Path:
    """The environment's folder. Raises ToolsMissingError when it is not made, or for other requirements."""
    if not is_made():
        raise ToolsMissingError("Ray's environment .venv-ray is not made; run make tools")
    return FOLDER


def is_made() -> bool:
    """Whether the environment holds just what tools/ray/requirements.txt asks for."""
    return _STAMP.exists() and _STAMP.read_text() == _digest()


def make(report: Callable[[str], None]) -> None:
    """Makes the environment where it is not made yet."""
    if is_made():
        return
    uv = shutil.which("uv", path=str(Path(sys.prefix) / "bin")) or shutil.which("uv")
    if not uv:
        raise ToolsMissingError("uv is not installed; run make setup")
    report("tools: Ray Serve into .venv-ray (about 600 MB)")
    _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(FOLDER)])
    python = str(FOLDER / "bin" / "python")
    _run([uv, "pip", "install", "--quiet", "--python", python, "--requirement", str(_REQUIREMENTS)])
    _STAMP.write_text(_digest())


def _digest() -> str:
    return hashlib.sha256(_REQUIREMENTS.read_bytes()).hexdigest()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ToolsMissingError(f"making .venv-ray failed: {said[-1] if said else 'uv said nothing'}")
