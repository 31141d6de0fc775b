"""Which settings differ between two deployments, and which of them brought a change about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvrelay.change.differences import differences
from kvrelay.change.effect import Change
from kvrelay.settings import DeploymentFile
from kvrelay.yaml_source import read_document

# Parts of what is deployed, by the setting that shapes them: logical ids' beginnings, or objects' kinds.
_SHAPES: dict[str, tuple[str, ...]] = {
    "network": ("Vpc", "HandlerLogs", "NetworkPolicy/"),
    "cluster": ("Eks", "HandlerLogs", "NodeAddOns", "SystemAddOns", "NetworkPolicy/"),
    "system_nodes": ("SystemNodes", "RayService/", "Deployment/"),
    "gpu_nodes": ("GpuNodes", "RayService/", "ResourceQuota/", "DaemonSet/", "ConfigMap/"),
}
_KUBERNETES = "/"


def changed_settings(before: DeploymentFile, after: DeploymentFile) -> tuple[str, ...]:
    """Paths into deployment.yaml, and into the Serve config as `serve_config:path`, that differ."""
    return (*_deployment(before, after), *_serve_config(before, after))


def with_causes(change: Change, settings: tuple[str, ...]) -> Change:
    """The change with those of the changed settings that can have shaped it; a lone setting is the cause of all."""
    if len(settings) <= 1:
        return change.caused_by(settings)
    return change.caused_by(tuple(each for each in settings if _can_shape(each, change)))


def _can_shape(setting: str, change: Change) -> bool:
    first = setting.partition(".")[0].partition("[")[0]
    if first in _SHAPES:
        return change.subject.startswith(_SHAPES[first])
    if first == "serving" or ":" in setting:
        return _KUBERNETES in change.subject
    return True  # name, region, zones and tags reach everything


def _deployment(before: DeploymentFile, after: DeploymentFile) -> Iterator[str]:
    old, new = (each.deployment.model_dump(mode="json") for each in (before, after))
    for path in differences(old, new):
        if path[0] != "acknowledge":
            yield _written(path)


def _serve_config(before: DeploymentFile, after: DeploymentFile) -> Iterator[str]:
    name = after.deployment.serving.serve_config
    old: Any = read_document(before.serve_config_path).value
    new: Any = read_document(after.serve_config_path).value
    if before.deployment.serving.serve_config == name:
        for path in differences(old, new):
            yield f"{name}: {_written(path)}"


def _written(path: tuple[str, ...]) -> str:
    text = ""
    for key in path:
        text += f"[{key}]" if key.isdigit() else f".{key}" if text else key
    return text
