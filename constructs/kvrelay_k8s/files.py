"""The charts as YAML files, for those who apply them with GitOps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from kvrelay_k8s.manifest_set import ManifestSet


def write_files(sets: Sequence[ManifestSet], directory: Path) -> list[Path]:
    """One file a chart, numbered in the order of applying: `kubectl apply -f dist/` takes them in that order.

    Files of an earlier run that no chart has any more are removed; nothing else in the directory is touched.
    """
    directory.mkdir(parents=True, exist_ok=True)
    paths = [directory / f"{index:02}-{each.name}.yaml" for index, each in enumerate(sets, start=1)]
    for path, each in zip(paths, sets, strict=True):
        path.write_text(as_yaml(each))
    for old in directory.glob("[0-9][0-9]-*.yaml"):
        if old not in paths:
            old.unlink()
    return paths


def as_yaml(manifests: ManifestSet) -> str:
    """A set's objects as YAML documents; the same input gives the same bytes."""
    text: str = yaml.dump_all(
        manifests.objects, Dumper=_Readable, sort_keys=False, width=110, allow_unicode=True
    )
    return text


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


_Readable.add_representer(str, _text)
