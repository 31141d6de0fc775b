"""What rules are checked against: whatever is known of a deployment, each part optional."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvrelay.rules import acknowledgements
from kvrelay.rules.acknowledgements import Acknowledgement
from kvrelay.rules.embedded import ray_services
from kvrelay.rules.manifests import flattened, ray_cluster
from kvrelay.rules.serve import Application, ServeConfig
from kvrelay.rules.value import Value
from kvrelay.yaml_source import Document

if TYPE_CHECKING:
    from kvrelay.settings import Deployment
    from kvrelay.settings.reading import DeploymentFile


@dataclass(frozen=True)
class DeploymentPart:
    """deployment.yaml, validated, with the values and places of the file."""

    settings: Deployment
    value: Value


@dataclass(frozen=True)
class Placement:
    """A deployment with an application that it serves."""

    deployment: DeploymentPart
    app: Application


class Subject:
    """A deployment file, Serve configs and manifests that belong together, cut into the parts of rules."""

    def __init__(
        self,
        deployment: DeploymentFile | None = None,
        serve_configs: Iterable[ServeConfig] = (),
        manifests: Iterable[Document] = (),
        comments: Iterable[Acknowledgement] = (),
    ) -> None:
        self.deployments = (
            [DeploymentPart(deployment.deployment, Value.root(deployment.document))] if deployment else []
        )
        self.manifests = [manifest for each in manifests for manifest in flattened(Value.root(each))]
        self.ray_services = ray_services(self.manifests)
        self.ray_clusters = [cluster for each in self.manifests if (cluster := ray_cluster(each))]
        self.ray_groups = [group for cluster in self.ray_clusters for group in cluster.groups]
        self.pods = [pod for manifest in self.manifests for pod in manifest.pods()]
        own = list(serve_configs)
        self.serve_configs = own + [service.serve for service in self.ray_services if service.serve]
        self.applications = [app for config in self.serve_configs for app in config.applications]
        self.engines = [engine for app in self.applications for engine in app.engines]
        self.placements = [
            Placement(part, app) for part in self.deployments for config in own for app in config.applications
        ]
        self.acknowledgements = [*comments]
        for part in self.deployments:
            self.acknowledgements += acknowledgements.of_deployment(part.value)
        embedded = {id(service.manifest): service.serve for service in self.ray_services}
        for manifest in self.manifests:
            serve = embedded.get(id(manifest))
            self.acknowledgements += acknowledgements.of_manifest(manifest, serve.value if serve else None)
