"""The programs a local cluster runs: where they are cached, and how they are built from Go modules."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import kvrelay
from kvrelay.errors import UserError

SOURCES = Path(kvrelay.__file__).parent.parent / "tools"
OLDEST_GO = (1, 26)
_VERSION_PACKAGE = "k8s.io/component-base/version"


class ToolsMissingError(UserError):
    """The programs are not built, or can't be."""


@dataclass(frozen=True)
class Tool:
    """One small Go module under tools/, and the program it builds."""

    folder: str
    package: str
    pinned: str
    """The module whose version in go.mod is the program's version."""
    names: tuple[str, ...]
    """What the program is called by; the first is the file, the others are links to it."""

    @property
    def source(self) -> Path:
        return SOURCES / self.folder

    @property
    def version(self) -> str:
        """The version that go.mod pins, such as `v1.36.3`."""
        for line in (self.source / "go.mod").read_text().splitlines():
            words = line.split("//")[0].split()
            if self.pinned in words[:-1] and "=>" not in words:
                return words[-1]
        raise ToolsMissingError(f"{self.source / 'go.mod'}: does not require {self.pinned}; restore the file")

    @property
    def key(self) -> str:
        """Changes whenever anything that goes into the program does."""
        digest = hashlib.sha256()
        for file in sorted(self.source.rglob("*")):
            if file.is_file() and file.suffix in (".go", ".mod", ".sum"):
                digest.update(str(file.relative_to(self.source)).encode() + b"\0" + file.read_bytes() + b"\0")
        return digest.hexdigest()[:16]

    @property
    def linker_flags(self) -> str:
        """Strips symbols. Kubernetes also learns its version, which it has only from here."""
        if self.folder != "kubernetes":
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".")
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        return "-s -w " + " ".join(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())


ETCD = Tool("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ("etcd",))
KUBERAY = Tool(
    "kuberay",
    "github.com/ray-project/kuberay/ray-operator",
    "github.com/ray-project/kuberay/ray-operator",
    ("kuberay-operator",),
)
KUBERNETES = Tool(
    "kubernetes", ".", "k8s.io/kubernetes", ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
)
# The quick ones first, so that a fault of the machine shows early.
TOOLS = (ETCD, KUBERAY, KUBERNETES)


def cache_folder() -> Path:
    """Where programs are kept: `$KVRELAY_CACHE`, or `kvrelay` in the user's cache folder."""
    chosen = os.environ.get("KVRELAY_CACHE")
    return (
        Path(chosen)
        if chosen
        else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvrelay"
    )


def folder_of(tool: Tool) -> Path:
    """Where this very version of the tool is kept, built or not."""
    return cache_folder() / "tools" / f"{tool.folder}-{tool.key}"


def program(name: str) -> Path:
    """The built program of that name. Raises ToolsMissingError when it is not built."""
    tool = next(tool for tool in TOOLS if name in tool.names)
    path = folder_of(tool) / name
    if not path.exists():
        raise ToolsMissingError(f"{name} {tool.version} is not built; run make tools")
    return path


def missing() -> tuple[Tool, ...]:
    """The tools that are not built yet."""
    return tuple(tool for tool in TOOLS if not all((folder_of(tool) / name).exists() for name in tool.names))


def build_missing(report: Callable[[str], None]) -> None:
    """Builds what is not built. Raises ToolsMissingError in one line when it can't."""
    wanted = missing()
    if not wanted:
        return
    go = _go()
    for tool in wanted:
        minutes = "6 minutes on two cores" if tool is KUBERNETES else "2 minutes"
        report(f"tools: building {tool.names[0]} {tool.version} (about {minutes} the first time)")
        began = time.monotonic()
        _build(go, tool)
        report(f"tools: {', '.join(tool.names)} {tool.version} built in {time.monotonic() - began:.0f} s")


def _go() -> str:
    go = shutil.which("go")
    needed = ".".join(map(str, OLDEST_GO))
    if not go:
        raise ToolsMissingError(f"go is not on PATH; install Go {needed} or newer to build the local cluster")
    words = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout.split()
    found = words[2].removeprefix("go")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST_GO:
        raise ToolsMissingError(f"go is {found}; install Go {needed} or newer to build the local cluster")
    return go


def _build(go: str, tool: Tool) -> None:
    folder = folder_of(tool)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Built beside and moved, so that an interrupted build is never taken for a program.
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}")
    command = [go, "build", "-trimpath", "-mod=readonly", "-ldflags", tool.linker_flags]
    command += ["-o", str(unfinished / tool.names[0]), tool.package]
    nice = shutil.which("nice")
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    try:
        done = subprocess.run(
            [*([nice, "-n", "15"] if nice else []), *command],
            cwd=tool.source,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            said = [
                line for line in done.stderr.splitlines() if line and not line.startswith("go: downloading")
            ]
            raise ToolsMissingError(
                f"building {tool.names[0]} {tool.version} failed: {said[-1] if said else 'go said nothing'}; "
                f"see it whole with: cd {tool.source} && go build {tool.package}"
            )
        for name in tool.names[1:]:
            (unfinished / name).symlink_to(tool.names[0])
        if not folder.exists():
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
