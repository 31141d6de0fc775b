"""Looks into the container from inside: what is there, in which version, and whether KV transfer over EFA can start.

Prints one JSON object. Exit code 0: nothing is wrong; 1: its `findings` say what is; 2: wrong arguments.

    python3 smoke.py --pins pins.yaml --tag serve-llm-cuda-v1.0     # while building: no GPU, no driver
    python3 smoke.py --gpu                                          # on a GPU node: the driver counts too

Needs nothing but the standard library; with `--pins` also PyYAML, which Ray brings.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

PLUGIN = "libplugin_LIBFABRIC.so"
EFA_RECORD = Path("/opt/amazon/efa_installed_packages")
# Come with the node's driver, never with an image.
DRIVER_LIBRARIES = frozenset({"libcuda.so.1", "libnvidia-ml.so.1"})
Finding = dict[str, str]


def finding(check: str, problem: str) -> Finding:
    """One thing that is wrong."""
    return {"check": check, "problem": problem}


def imported(name: str, findings: list[Finding]) -> object | None:
    """A module, or None with a finding."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # whatever an import raises, here it is what was found
        findings.append(finding("import", f"{name}: {type(error).__name__}: {error}"))
        return None


def nixl_variants() -> list[str]:
    """The NIXL builds installed, by distribution: `nixl-cu12`, `nixl-cu13`."""
    names = {re.sub(r"[-_.]+", "-", each.metadata["Name"] or "").lower() for each in metadata.distributions()}
    return sorted(name for name in names if re.fullmatch(r"nixl-cu\d+", name))


def check_variants(variants: list[str], cuda: str | None) -> Iterator[Finding]:
    """Two builds overwrite each other's files; one for another CUDA than torch's is never loaded."""
    if len(variants) != 1:
        yield finding(
            "nixl", f"{' and '.join(variants) or 'no nixl-cu build'} installed; exactly one is needed"
        )
    elif cuda and variants[0] != f"nixl-cu{cuda.partition('.')[0]}":
        yield finding("nixl", f"{variants[0]} is installed, torch is built for CUDA {cuda}")


def plugin_path(variants: list[str]) -> Path | None:
    """NIXL's LIBFABRIC backend: where NIXL_PLUGIN_DIR says, else where the wheel put it."""
    if folder := os.environ.get("NIXL_PLUGIN_DIR"):
        found = Path(folder) / PLUGIN
        return found if found.exists() else None
    for variant in variants:
        for file in metadata.files(variant) or ():
            if file.name == PLUGIN:
                return Path(str(file.locate())).resolve()
    return None


def needed_libraries(library: Path) -> dict[str, str | None]:
    """What the dynamic linker finds for `library`: name to path, None for what is missing. Empty without ldd."""
    if shutil.which("ldd") is None:
        return {}
    told = subprocess.run(["ldd", str(library)], capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"^\s*(\S+) => (\S.*?)(?: \(0x[0-9a-f]+\))?$", told, re.MULTILINE))
    return {name: None if path == "not found" else path for name, path in found.items()}


def loaded_libraries() -> dict[str, str]:
    """Libraries in this process by name. torch loads CUDA's by path: a plugin that comes later finds them."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {
        Path(parts[5]).name: parts[5]
        for line in lines
        if ".so" in line and len(parts := line.split(None, 5)) == 6
    }


def check_libraries(libraries: dict[str, str | None], gpu: bool) -> Iterator[Finding]:
    """The plugin loads only with all of them; the driver's own count on a GPU node alone."""
    for name, path in libraries.items():
        if path is None and (gpu or name not in DRIVER_LIBRARIES):
            yield finding("libraries", f"{PLUGIN} needs {name}, which is not there")


def libfabric_version(path: str) -> str:
    """`major.minor` of its API."""
    number: int = ctypes.CDLL(path).fi_version()
    return f"{number >> 16}.{number & 0xFFFF}"


def providers() -> list[str] | None:
    """libfabric's providers; None without its own tool."""
    tool = shutil.which("fi_info", path=f"{os.environ.get('PATH', '')}:/opt/amazon/efa/bin")
    if tool is None:
        return None
    told = subprocess.run([tool, "--list"], capture_output=True, text=True, check=False).stdout
    return sorted(set(re.findall(r"^(\w+):$", told, re.MULTILINE)))


def efa_installer() -> str | None:
    """The version of AWS's EFA installer that made the image."""
    with contextlib.suppress(OSError):
        if found := re.search(r"installer version:\s*(\S+)", EFA_RECORD.read_text(), re.IGNORECASE):
            return found[1]
    return None


def check_pins(file: Path, tag: str | None, versions: dict[str, str | None]) -> Iterator[Finding]:
    """Versions against those that kvrelay was tested with."""
    import yaml

    container = yaml.safe_load(file.read_text())["container"]
    tag = tag or container["tested"]
    pinned = container["tags"].get(tag)
    if pinned is None:
        yield finding("pins", f"{file.name} does not say what {tag} holds; add it there")
        return
    for name, wanted in pinned.items():
        held = versions.get(name)
        if held is None:
            yield finding("pins", f"{name} is not there; {tag} is pinned with {wanted}")
        # Either may say more than the other: 1.47 and 1.47.0, 13.0 and 13.0.2.
        elif any(a != b for a, b in zip(held.partition("+")[0].split("."), wanted.split("."), strict=False)):
            yield finding("pins", f"{name} is {held}; {tag} is pinned with {wanted}")


def look(pins: Path | None, tag: str | None, gpu: bool) -> dict[str, object]:
    """Everything, as one object for JSON."""
    findings: list[Finding] = []
    modules = {name: imported(name, findings) for name in ("torch", "ray", "vllm", "nixl._api")}
    serve = imported("ray.serve.llm", findings) if modules["ray"] else None
    if serve and not hasattr(serve, "build_pd_openai_app"):
        findings.append(finding("import", "ray.serve.llm has no build_pd_openai_app"))

    cuda = getattr(getattr(modules["torch"], "version", None), "cuda", None)
    variants = nixl_variants()
    findings += check_variants(variants, cuda)

    plugin = plugin_path(variants)
    libraries: dict[str, str | None] = {}
    if plugin is None:
        findings.append(finding("nixl", f"{PLUGIN} is not there: NIXL has no LIBFABRIC backend"))
    else:
        libraries, loaded = needed_libraries(plugin), loaded_libraries()
        libraries = {name: path or loaded.get(name) for name, path in libraries.items()}
        if not libraries:
            findings.append(finding("libraries", "ldd is not there: what the plugin needs can't be told"))
        findings += check_libraries(libraries, gpu)

    fabric = libraries.get("libfabric.so.1")
    offered = providers()
    if offered is not None and "efa" not in offered:
        findings.append(finding("libfabric", f"it has no efa provider, only {', '.join(offered) or 'none'}"))
    if shutil.which("wget") is None:
        findings.append(finding("tools", "wget is not there: KubeRay's own probes call it"))

    versions: dict[str, str | None] = {
        "python": platform.python_version(),
        "ray": getattr(modules["ray"], "__version__", None),
        "vllm": getattr(modules["vllm"], "__version__", None),
        "nixl": metadata.version(variants[0]) if variants else None,
        "pytorch": getattr(modules["torch"], "__version__", None),
        "cuda": cuda,
        "libfabric": libfabric_version(fabric) if fabric else None,
        "efa_installer": efa_installer(),
    }
    if pins:
        findings += check_pins(pins, tag, versions)
    return {
        "versions": versions,
        "nixl": {"builds": variants, "plugin": str(plugin) if plugin else None, "libraries": libraries},
        "libfabric": {"path": fabric, "providers": offered},
        "findings": findings,
    }


def main() -> int:
    """Prints what was found."""
    parser = argparse.ArgumentParser(description="Looks into the container from inside, and prints JSON.")
    parser.add_argument("--pins", type=Path, help="pins.yaml: compare versions with what it says")
    parser.add_argument("--tag", help="the container tag to compare with; the tested one when left out")
    parser.add_argument("--gpu", action="store_true", help="also want the GPU driver's libraries")
    asked = parser.parse_args()
    if asked.pins and not asked.pins.is_file():
        parser.error(f"{asked.pins}: no such file")
    # Imports print what they like: standard output is for the one object.
    with contextlib.redirect_stdout(sys.stderr):
        found = look(asked.pins, asked.tag, asked.gpu)
    print(json.dumps(found, indent=2))  # noqa: T201 - it is what this program is for
    return 1 if found["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
