"""The Ray worker groups that an app needs on a deployment's nodes, derived and never typed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from kvrelay.data import InstanceType, gpu, instance_type
from kvrelay.errors import InvalidFileError
from kvrelay.serve_app.app import UNBOUNDED, Engine, ServeApp
from kvrelay.settings import Deployment, GpuNodeGroup
from kvrelay.yaml_source import YamlPath


@dataclass(frozen=True)
class WorkerGroup:
    """The pods of one engine. Each pod fills a node: it takes all its GPUs and EFA interfaces.

    A privileged pod sees all of a node's devices whatever its limits say, so two on one node would take each
    other's GPUs; and a role that fills its nodes can't share one with the other role.
    """

    engine: Engine
    node_group: GpuNodeGroup
    pods: int
    """Enough for the most replicas that Serve may ask for: the nodes run anyway, and scaling up takes no pod."""

    @property
    def name(self) -> str:
        """`prefill`, `decode`, or `engine` in a plain app."""
        return self.engine.name

    @property
    def instance(self) -> InstanceType:
        return instance_type(self.node_group.instance_type)

    @property
    def gpus(self) -> int:
        """GPUs of each pod."""
        return self.instance.gpu.count if self.instance.gpu else 0

    @property
    def efa_interfaces(self) -> int:
        """EFA interfaces of each pod."""
        return self.instance.efa_interfaces

    @property
    def replicas_per_pod(self) -> int:
        """Replicas that share a pod; 1 where a replica spans several."""
        return max(1, self.gpus // max(1, self.engine.gpus_per_replica))

    @property
    def ray_resource(self) -> str:
        """The Ray resource that only these pods have."""
        return ray_resource(self.name)


def ray_resource(engine_name: str) -> str:
    """The Ray resource that pins an engine to its worker group."""
    return f"kvrelay_{engine_name}"


def node_group_of(engine: Engine, deployment: Deployment) -> GpuNodeGroup:
    """The node group that carries an engine; a plain app's engine takes the first."""
    nodes = deployment.gpu_nodes
    return nodes.group_for(engine.role) if engine.role else nodes.groups[0]


def worker_groups(app: ServeApp, deployment: Deployment) -> tuple[WorkerGroup, ...]:
    """One worker group for each engine. Raises InvalidFileError, a line for each engine that does not fit."""
    faults: list[str] = []
    groups: list[WorkerGroup] = []
    for engine in app.engines:
        node_group = node_group_of(engine, deployment)
        own = list(_faults(engine, node_group))
        faults += own
        if not own:
            groups.append(WorkerGroup(engine, node_group, _pods(engine, node_group)))
    faults += [] if faults else _too_many(groups, surge=deployment.serving.upgrade == "surge")
    if faults:
        raise InvalidFileError(faults)
    return tuple(groups)


def _gpus(node_group: GpuNodeGroup) -> int:
    gpus = instance_type(node_group.instance_type).gpu
    return gpus.count if gpus else 0


def _pods(engine: Engine, node_group: GpuNodeGroup) -> int:
    most, size, per_node = int(engine.replicas.most), engine.gpus_per_replica, _gpus(node_group)
    if size > per_node:
        return most * ceil(size / per_node)
    return ceil(most / (per_node // max(1, size)))


def _faults(engine: Engine, node_group: GpuNodeGroup) -> Iterator[str]:
    kind, available = instance_type(node_group.instance_type), _gpus(node_group)
    where = f"{kind.name} of node group {node_group.name}"
    if engine.tensor_parallel > available:
        path: YamlPath = ("engine_kwargs", "tensor_parallel_size")
        problem = f"is more than the {_count(available, 'GPU')} of a {where}; use {available} or a larger instance type"
        yield engine.fault(path, engine.tensor_parallel, problem)
    elif available % engine.tensor_parallel and engine.pipeline_parallel > 1:
        path = ("engine_kwargs", "tensor_parallel_size")
        problem = f"does not divide the {_count(available, 'GPU')} of a {where}; use a divisor"
        yield engine.fault(path, engine.tensor_parallel, problem)
    elif engine.gpus_per_replica < 1:
        path = ("placement_group_config",)
        yield engine.fault(path, None, "asks Ray for no whole GPU; give each worker's bundle GPU: 1")
    if (
        kind.gpu
        and (named := engine.config.accelerator_type)
        and named != (found := gpu(kind.gpu).ray_accelerator)
    ):
        remedy = f"write {found} or leave it out" if found else "leave it out"
        yield engine.fault(("accelerator_type",), named, f"is not what a {where} has; {remedy}")
    if engine.replicas.most == UNBOUNDED:
        path = ("deployment_config", "autoscaling_config")
        yield engine.fault(
            path, None, "has no max_replicas, so no number of nodes is enough; set max_replicas"
        )


def _too_many(groups: list[WorkerGroup], *, surge: bool) -> Iterator[str]:
    """Every replica that Serve may ask for needs its GPUs: nothing here adds nodes."""
    by_node_group: dict[str, list[WorkerGroup]] = defaultdict(list)
    for group in groups:
        by_node_group[group.node_group.name].append(group)
    for sharing in by_node_group.values():
        node_group = sharing[0].node_group
        needed = sum(group.pods for group in sharing) * (2 if surge else 1)
        # A surge upgrade may bring nodes of its own, up to the most the group may have.
        setting, available = ("max_count", node_group.largest_count) if surge else ("count", node_group.count)
        if needed > available:
            each = ", ".join(f"{group.name} {group.pods}" for group in sharing)
            twice = " (twice, since serving.upgrade is surge)" if surge else ""
            largest = max(sharing, key=lambda group: group.pods).engine
            yield largest.fault(
                ("deployment_config",),
                None,
                f"needs more nodes than there are: {each}{twice} of node group {node_group.name}, which has {setting} "
                f"{available}; raise its {setting} to {needed} or ask for fewer replicas",
            )


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" + ("" if number == 1 else "s")
