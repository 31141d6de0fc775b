"""Runs this project's own `cdk` on its app, wherever the command was started."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

from kvrelay.errors import UserError

PROJECT = Path(__file__).parents[2]
_TOOLS = (PROJECT / ".venv/bin", PROJECT / "node_modules/.bin")


class CdkError(UserError):
    """`cdk` ended with an error; what it was stands in its own output."""

    exit_code = 1


def run_cdk(*arguments: str, deployment: Path, environment: Mapping[str, str] | None = None) -> None:
    """Runs `cdk` with its output shown as it comes. Raises CdkError when it fails."""
    code = subprocess.call(
        _command(arguments, deployment), cwd=PROJECT, env=_environment(environment), stdin=subprocess.DEVNULL
    )
    if code:
        raise CdkError(f"cdk {arguments[0]} ended with exit code {code}; its reason stands above")


def cdk_lines(
    *arguments: str, deployment: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Runs `cdk` and yields its lines as they come. Raises CdkError with the last of them when it fails."""
    last: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        _command(arguments, deployment),
        cwd=PROJECT,
        env=_environment(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            last.append(line.rstrip())
            yield line.rstrip()
    if process.returncode:
        raise CdkError("\n".join([*last, f"cdk {arguments[0]} ended with exit code {process.returncode}"]))


def _command(arguments: tuple[str, ...], deployment: Path) -> list[str]:
    cdk = shutil.which("cdk", path=_path())
    if cdk is None:
        raise UserError("cdk is not installed here; run: make setup")
    return [cdk, *arguments, "--no-notices", "--context", f"deployment={deployment.resolve()}"]


def _path() -> str:
    return os.pathsep.join([*map(str, _TOOLS), os.environ.get("PATH", "")])


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(extra or {}), "PATH": _path()}
