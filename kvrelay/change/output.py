"""A comparison as text, as JSON and as Markdown for a pull request's comment."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kvrelay.change.comparison import Comparison
from kvrelay.change.effect import Change

_MOST_PATHS = 3


def as_json(found: Comparison) -> str:
    """Everything, for machines."""
    before, after = found.before, found.after
    return json.dumps(
        {
            "class": found.effect.label,
            "changes": [
                {
                    "class": change.effect.label,
                    "stack": change.stack,
                    "subject": change.subject,
                    "kind": change.kind,
                    "what": change.what,
                    "paths": change.paths,
                    "causes": change.causes,
                }
                for change in found.changes
            ],
            "settings": found.settings,
            "downtime_seconds": found.downtime_seconds,
            "strategy": found.strategy,
            "usd_per_hour": {"before": before.usd_per_hour if before else None, "after": after.usd_per_hour},
            "vcpus": {"before": before.vcpus if before else None, "after": after.vcpus},
            "gpus": {"needed": found.room.needed, "available": found.room.available} if found.room else None,
        },
        indent=2,
    )


def as_text(found: Comparison) -> str:
    """For a terminal."""
    lines = [f"{found.effect.label}: {_count(found)}"]
    for change in found.changes:
        lines.append(
            f"  {change.effect.label:16}  {change.stack}  {change.subject} {change.what}{_paths(change)}"
        )
        if change.causes:
            lines.append(f"  {'':16}  because of {', '.join(change.causes)}")
    lines += [f"{name}: {value}" for name, value in _facts(found)]
    return "\n".join(lines)


def as_markdown(found: Comparison) -> str:
    """For a pull request's comment."""
    lines = ["### What this would change", "", f"**{found.effect.label}**: {_count(found)}", ""]
    lines += [f"- {name}: {value}" for name, value in _facts(found)]
    if found.changes:
        lines += ["", "| class | stack | what | because of |", "| --- | --- | --- | --- |"]
    for change in found.changes:
        cells = (
            change.effect.label,
            change.stack,
            f"`{change.subject}` {change.what}{_paths(change)}",
            ", ".join(f"`{cause}`" for cause in change.causes),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def _count(found: Comparison) -> str:
    count = len(found.changes)
    if not count and found.settings:
        return (
            f"no change, though {', '.join(found.settings)} differs: was cdk synth run on both sides since?"
        )
    return f"{count} change{'' if count == 1 else 's'}" if count else "no change"


def _paths(change: Change) -> str:
    if not change.paths:
        return ""
    more = len(change.paths) - _MOST_PATHS
    return f" ({', '.join(change.paths[:_MOST_PATHS])}{f' and {more} more' if more > 0 else ''})"


def _facts(found: Comparison) -> Iterator[tuple[str, str]]:
    if not found.changes:
        return
    seconds = found.downtime_seconds
    yield (
        "expected downtime",
        ("not known" if seconds is None else f"about {seconds / 60:.0f} min" if seconds else "none"),
    )
    if found.room:
        yield (
            "GPUs for both Ray clusters",
            f"{found.room.needed} of {found.room.available} that the node groups may reach",
        )
    before, after = found.before, found.after
    yield "USD/h", f"{_usd(before.usd_per_hour if before else None)} -> {_usd(after.usd_per_hour)}"
    for name in dict.fromkeys((*(before.vcpus if before else ()), *after.vcpus)):
        old = str(before.vcpus.get(name, 0)) if before else "not known"
        yield f"vCPUs of quota {name}", f"{old} -> {after.vcpus.get(name, 0)}"
    yield "strategy", found.strategy


def _usd(price: float | None) -> str:
    return "not known" if price is None else f"{price:.2f}"
