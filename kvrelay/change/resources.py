"""What CloudFormation does to each resource of a stack, and what that means for what runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from kvrelay.change.differences import Path, differences
from kvrelay.change.effect import Change, Effect

KUBERNETES = "Custom::AWSCDK-EKS-KubernetesResource"
NODE_GROUP = "AWS::EKS::Nodegroup"
Resources = Mapping[str, Mapping[str, Any]]


@cache
def behaviour() -> Mapping[str, Mapping[str, Any]]:
    """The facts of update_behaviour.yaml by resource type."""
    text = files("kvrelay.change").joinpath("update_behaviour.yaml").read_text(encoding="utf-8")
    facts: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return facts


def resource_changes(stack: str, before: Resources, after: Resources) -> Iterator[Change]:
    """One change for each resource that is added, removed, replaced or updated; not Kubernetes objects."""
    replaced = _replaced(before, after)
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        kind = str((new or old or {}).get("Type"))
        if kind == KUBERNETES:
            continue
        if old is None:
            yield Change(stack, name, kind, Effect.IN_PLACE, "is added")
        elif new is None:
            yield Change(stack, name, kind, _meaning(kind, "removed", "replaced"), "is removed")
        elif name in replaced:
            yield Change(stack, name, kind, _meaning(kind, "replaced"), "is replaced", replaced[name])
        else:
            yield from _updated(stack, name, kind, (old, new), {*replaced, *_new_versions(before, after)})


def _updated(
    stack: str, name: str, kind: str, pair: tuple[Mapping[str, Any], Mapping[str, Any]], moved: set[str]
) -> Iterator[Change]:
    old, new = (each.get("Properties", {}) for each in pair)
    paths = list(differences(old, new))
    rolls = behaviour().get(kind, {}).get("rolls", ())
    follows = sorted(ref for key in rolls for ref in _references(new.get(key)) if ref in moved)
    text = tuple(".".join(path) for path in paths)
    if follows or any(path[0] in rolls for path in paths):
        what = "gets new nodes" + (f", as {follows[0]} changes" if follows else "")
        yield Change(stack, name, kind, Effect.NODE_REPLACEMENT, what, text)
    elif kind == NODE_GROUP and _size(new) < _size(old):
        what = f"goes from {_size(old)} to {_size(new)} nodes: their capacity is given up"
        yield Change(stack, name, kind, Effect.NODE_REPLACEMENT, what, text)
    elif paths:
        tags_only = all(path[0] in {"Tags", "TagSpecifications"} for path in paths)
        effect = Effect.IN_PLACE if tags_only else _meaning(kind, "updated")
        if kind == "AWS::EKS::Cluster" and any(path[0] == "Version" for path in paths):
            effect = Effect.ROLLING
        yield Change(stack, name, kind, effect, "gets other tags" if tags_only else "is updated", text)


def _replaced(before: Resources, after: Resources) -> dict[str, tuple[str, ...]]:
    """Resources that are replaced, with the paths that force it, and those that refer to them in a fixed property."""
    found: dict[str, tuple[str, ...]] = {}
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        if old["Type"] != new["Type"]:
            found[name] = ("Type",)
            continue
        paths = [
            path
            for path in differences(old.get("Properties", {}), new.get("Properties", {}))
            if _fixed(new["Type"], path)
        ]
        if paths:
            found[name] = tuple(".".join(path) for path in paths)
    while True:
        more = {
            name: (f"{path} refers to {target}",)
            for name in before.keys() & after.keys() - found.keys()
            for path in behaviour().get(after[name]["Type"], {}).get("fixed", ())
            for target in _references(_at(after[name].get("Properties", {}), path))
            if target in found
        }
        if not more:
            return found
        found.update(more)


def _new_versions(before: Resources, after: Resources) -> set[str]:
    """Launch templates that get another version: node groups on them take new nodes."""
    return {
        name
        for name in before.keys() & after.keys()
        if after[name]["Type"] == "AWS::EC2::LaunchTemplate"
        and before[name].get("Properties") != after[name].get("Properties")
    }


def _fixed(kind: str, path: Path) -> bool:
    for each in behaviour().get(kind, {}).get("fixed", ()):
        fixed = tuple(each.split("."))
        shared = min(len(fixed), len(path))
        if path[:shared] == fixed[:shared]:
            return True
    return False


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("Ref"), str):
            yield value["Ref"]
        attribute = value.get("Fn::GetAtt")
        if isinstance(attribute, list) and attribute:
            yield str(attribute[0])
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _meaning(kind: str, *keys: str) -> Effect:
    facts = behaviour().get(kind, {})
    word = next((facts[key] for key in keys if key in facts), "in-place")
    return Effect[word.upper().replace("-", "_")]


def _size(properties: Mapping[str, Any]) -> int:
    return int(properties.get("ScalingConfig", {}).get("DesiredSize", 0))
