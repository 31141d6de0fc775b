"""The kinds of rules by what they look at: each says which parts of a subject it is checked with."""

from __future__ import annotations

from kvrelay.rules.embedded import RayService
from kvrelay.rules.manifests import Manifest, Pod, RayCluster, RayGroup
from kvrelay.rules.rule import Rule
from kvrelay.rules.serve import Application, Engine, ServeConfig
from kvrelay.rules.subject import DeploymentPart, Placement, Subject


class SubjectRule(Rule[Subject]):
    """Looks at everything at once."""

    def parts(self, subject: Subject) -> list[Subject]:
        return [subject]


class DeploymentRule(Rule[DeploymentPart]):
    """Looks at deployment.yaml."""

    def parts(self, subject: Subject) -> list[DeploymentPart]:
        return subject.deployments


class PlacementRule(Rule[Placement]):
    """Looks at deployment.yaml and an application of its Serve config together."""

    def parts(self, subject: Subject) -> list[Placement]:
        return subject.placements


class ServeRule(Rule[ServeConfig]):
    """Looks at a whole Serve config."""

    def parts(self, subject: Subject) -> list[ServeConfig]:
        return subject.serve_configs


class ApplicationRule(Rule[Application]):
    """Looks at one application of a Serve config."""

    def parts(self, subject: Subject) -> list[Application]:
        return subject.applications


class PairRule(Rule[Application]):
    """Looks at a prefill/decode application of which both engines are known."""

    def parts(self, subject: Subject) -> list[Application]:
        return [app for app in subject.applications if len(app.roles) == 2]


class EngineRule(Rule[Engine]):
    """Looks at one engine."""

    def parts(self, subject: Subject) -> list[Engine]:
        return subject.engines


class TransferRule(Rule[Engine]):
    """Looks at an engine with KV transfer settings."""

    def parts(self, subject: Subject) -> list[Engine]:
        return [engine for engine in subject.engines if engine.transfer.is_mapping]


class RayServiceRule(Rule[RayService]):
    """Looks at one RayService."""

    def parts(self, subject: Subject) -> list[RayService]:
        return subject.ray_services


class RayClusterRule(Rule[RayCluster]):
    """Looks at one Ray cluster, whichever object describes it."""

    def parts(self, subject: Subject) -> list[RayCluster]:
        return subject.ray_clusters


class RayGroupRule(Rule[RayGroup]):
    """Looks at a head group or worker group."""

    def parts(self, subject: Subject) -> list[RayGroup]:
        return subject.ray_groups


class PodRule(Rule[Pod]):
    """Looks at one pod template."""

    def parts(self, subject: Subject) -> list[Pod]:
        return subject.pods


class ManifestRule(Rule[Manifest]):
    """Looks at one Kubernetes object."""

    def parts(self, subject: Subject) -> list[Manifest]:
        return subject.manifests
