"""What a deployment should come to, and how long each step usually takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kvrelay.data import instance_type
from kvrelay.errors import UserError
from kvrelay.planner.timeline import timeline
from kvrelay.serve_app import ServeApp, worker_groups
from kvrelay.settings import Deployment

# Where no plan can be made of the model's size: that of the reference model.
_WEIGHTS_GIB = 17.0


@dataclass(frozen=True)
class GpuGroup:
    """Nodes of one group, and what each must offer."""

    name: str
    instance_type: str
    count: int
    gpus: int
    efa: int


@dataclass(frozen=True)
class Wanted:
    """The deployment's end, as far as waiting needs it."""

    name: str
    region: str
    zone: str
    namespace: str
    service: str
    model: str
    system_nodes: int
    gpu_groups: tuple[GpuGroup, ...]
    workers: Mapping[str, int]
    """Pods of each worker group."""
    usual: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each step of kvrelay's timeline takes."""

    @classmethod
    def of(cls, deployment: Deployment, app: ServeApp) -> Wanted:
        """Raises InvalidFileError when the app does not fit the nodes."""
        groups = []
        for group in deployment.gpu_nodes.groups:
            kind = instance_type(group.instance_type)
            gpus = kind.gpu.count if kind.gpu else 0
            groups.append(GpuGroup(group.name, kind.name, group.count, gpus, kind.efa_interfaces))
        return cls(
            name=deployment.name,
            region=deployment.region,
            zone=deployment.gpu_nodes.zone,
            namespace=deployment.serving.namespace,
            service=deployment.serving.service_name,
            model=app.model_id,
            system_nodes=deployment.system_nodes.count,
            gpu_groups=tuple(groups),
            workers={group.name: group.pods for group in worker_groups(app, deployment)},
            usual=_usual(deployment, app),
        )

    @property
    def gpu_nodes(self) -> int:
        return sum(group.count for group in self.gpu_groups)

    @property
    def gpu_types(self) -> str:
        return ", ".join(dict.fromkeys(group.instance_type for group in self.gpu_groups))

    @property
    def context(self) -> dict[str, str]:
        """Words that causes and mends may name."""
        return {
            "name": self.name,
            "region": self.region,
            "zone": self.zone,
            "namespace": self.namespace,
            "service": self.service,
            "model": self.model,
            "types": self.gpu_types,
            "gpu_nodes": str(self.gpu_nodes),
        }


def _usual(deployment: Deployment, app: ServeApp) -> dict[str, float]:
    """Seconds of each step of a first deployment."""
    from kvrelay.planner.asked import asked
    from kvrelay.planner.fit import GIB, fit
    from kvrelay.planner.image_pull import ImagePull

    try:
        roles = asked(deployment, app).roles
    except UserError:
        weights = _WEIGHTS_GIB
    else:
        weights = max(fit(role.engine).weights * role.engine.tensor_parallel / GIB for role in roles)
    steps = timeline("deploy", weights, ImagePull.of(deployment).seconds).steps
    return {step.name: step.seconds for step in steps}
