"""Two syntheses and their deployments compared: every change, what it costs, how long it interrupts, how to do it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvrelay.change.bill import Bill, Room, bill, room
from kvrelay.change.causes import changed_settings, with_causes
from kvrelay.change.effect import Change, Effect
from kvrelay.change.objects import object_changes
from kvrelay.change.resources import resource_changes
from kvrelay.change.synthesis import Synthesis
from kvrelay.errors import UserError
from kvrelay.planner.asked import asked
from kvrelay.planner.fit import GIB, fit
from kvrelay.planner.timeline import timeline
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import DeploymentFile


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that `kvrelay diff` says."""

    changes: tuple[Change, ...]
    settings: tuple[str, ...] | None
    """Settings that differ; None when the base's deployment file is not known."""
    downtime_seconds: float | None
    """The longest expected interruption; None when the model can't be sized."""
    strategy: str
    before: Bill | None
    after: Bill
    room: Room | None
    """GPUs for a second Ray cluster, where one is needed."""

    @property
    def effect(self) -> Effect:
        """The gravest class of all changes."""
        return max((change.effect for change in self.changes), default=Effect.NOTHING)


def compare(
    base: Synthesis, head: Synthesis, before: DeploymentFile | None, after: DeploymentFile
) -> Comparison:
    """Compares two syntheses. `before` is None when only the base's templates are known."""
    settings = changed_settings(before, after) if before else None
    changes = tuple(
        sorted(
            (with_causes(each, settings or ()) for each in _changes(base, head)),
            key=lambda change: (-change.effect, change.stack, change.subject),
        )
    )
    effect = max((change.effect for change in changes), default=Effect.NOTHING)
    space = None
    if effect == Effect.NEW_RAY_CLUSTER:
        app = load_serve_app(after.serve_config_path)
        space = room(load_serve_app(before.serve_config_path) if before else app, app, after.deployment)
    surge = after.deployment.serving.upgrade == "surge"
    return Comparison(
        changes,
        settings,
        _downtime(changes, surge and space is not None and not space.missing, after),
        _strategy(effect, surge, space),
        bill(before.deployment) if before else None,
        bill(after.deployment),
        space,
    )


def _changes(base: Synthesis, head: Synthesis) -> Iterator[Change]:
    for stack in dict.fromkeys((*base.templates, *head.templates)):
        old = base.templates.get(stack, {}).get("Resources", {})
        new = head.templates.get(stack, {}).get("Resources", {})
        yield from resource_changes(stack, old, new)
        yield from object_changes(stack, old, new)


def _downtime(changes: tuple[Change, ...], beside: bool, after: DeploymentFile) -> float | None:
    phases = {phase for change in changes for phase in _phases(change, beside)}
    if not phases:
        return 0.0
    try:
        wanted = asked(after.deployment, load_serve_app(after.serve_config_path))
    except UserError:
        return None
    weights = max(fit(role.engine).weights * role.engine.tensor_parallel / GIB for role in wanted.roles)
    return max(
        sum(timeline(part, weights, wanted.image_pull.seconds).seconds for part in phase) for phase in phases
    )


def _phases(change: Change, beside: bool) -> Iterator[tuple[str, ...]]:
    if change.effect == Effect.LOSS:
        yield ("destroy", "deploy")
    elif change.effect == Effect.NODE_REPLACEMENT:
        # With the system nodes goes the Ray head; the engines start again where their weights are.
        yield ("restart-warm",) if change.subject.startswith("SystemNodes") else ("restart-cold",)
    elif not beside and (
        change.effect == Effect.NEW_RAY_CLUSTER
        or (change.kind == "RayService" and "spec.serveConfigV2" in change.paths)
    ):
        yield ("restart-warm",)


def _strategy(effect: Effect, surge: bool, space: Room | None) -> str:
    if effect == Effect.NOTHING:
        return "nothing to deploy"
    if effect == Effect.IN_PLACE:
        return "deploy as it is"
    if effect == Effect.ROLLING:
        return "deploy as it is; pods restart one after another"
    if space is not None:
        if surge and not space.missing:
            return "deploy as it is: the new Ray cluster has room beside the old one (serving.upgrade: surge)"
        if surge:
            return (
                f"raise gpu_nodes.groups[].max_count for {space.missing} more GPUs first: with surge and no room "
                "the new cluster waits for ever; or set serving.upgrade: in-place and delete the RayCluster"
            )
        return "deploy, then delete the RayCluster in a quiet hour; or set serving.upgrade: surge with room for both"
    if effect == Effect.NODE_REPLACEMENT:
        return (
            "deploy in a quiet hour; hold GPU capacity first (a reservation, or kvrelay preflight): "
            "nodes given up may not come back"
        )
    return (
        "don't deploy over it: deploy a second deployment under another name, move clients, destroy the first"
    )
