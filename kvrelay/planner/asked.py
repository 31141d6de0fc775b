"""What a deployment and its serve config ask of the planner, as plain engines, nodes and replicas."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kvrelay.data import instance_type
from kvrelay.errors import UserError
from kvrelay.planner.cache import KV_BYTES
from kvrelay.planner.cost import Footprint, Nodes
from kvrelay.planner.engine import Engine
from kvrelay.planner.image_pull import ImagePull
from kvrelay.planner.model_config import known_shape, read_shape
from kvrelay.planner.shape import ModelShape
from kvrelay.serve_app import Engine as ServedEngine
from kvrelay.serve_app import ServeApp
from kvrelay.serve_app.worker_groups import node_group_of
from kvrelay.settings import Deployment

_STORED_BY_QUANTIZATION = {
    "fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "mxfp4": "mxfp4",
    "compressed-tensors": "int8",
}
_TWO_BYTES = {"auto", "bfloat16", "float16", "half"}


@dataclass(frozen=True, slots=True)
class Role:
    """One kind of engine with its replicas: prefill, decode, or `engine` of a plain app."""

    name: str
    engine: Engine
    replicas: int


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that a plan is made of."""

    name: str
    shape: ModelShape
    roles: tuple[Role, ...]
    footprint: Footprint
    image_pull: ImagePull

    @property
    def decode(self) -> Role:
        """The role that decodes: the last one."""
        return self.roles[-1]

    @property
    def prefill(self) -> Role:
        """The role that prefills: the first one."""
        return self.roles[0]

    @property
    def replicas(self) -> int:
        """Engines in all."""
        return sum(role.replicas for role in self.roles)


def asked(deployment: Deployment, app: ServeApp, concurrency: int = 1, config: Path | None = None) -> Asked:
    """Reads a deployment and its app. `config`: a config.json that describes the model instead of its id.

    Raises UserError, one line: a model, GPU or setting that the planner can't size.
    """
    shape = read_shape(config) if config else model_shape(app)
    roles = tuple(
        Role(served.name, engine_of(served, deployment, shape, concurrency), served.replicas.initial)
        for served in app.engines
    )
    return Asked(deployment.name, shape, roles, footprint(deployment), ImagePull.of(deployment))


def model_shape(app: ServeApp) -> ModelShape:
    """The shape of the app's model: of its local folder, or of the model that its source names."""
    folder = Path(app.file).parent / app.model_source
    if (folder / "config.json").is_file():
        return read_shape(folder / "config.json")
    return known_shape(app.model_source)


def engine_of(served: ServedEngine, deployment: Deployment, shape: ModelShape, concurrency: int) -> Engine:
    """The engine as vLLM would start it on its node group's instance type."""
    instance = instance_type(node_group_of(served, deployment).instance_type)
    size = served.tensor_parallel * served.pipeline_parallel
    if instance.gpu is None:
        raise UserError(
            f"{served.name}: instance_type {instance.name} has no GPU; name one with GPUs and EFA such as g6.8xlarge"
        )
    if size > instance.gpu.count:
        raise UserError(
            f"{served.name}: tensor_parallel_size {size} is more than the {instance.gpu.count} GPUs of "
            f"{instance.name}; lower it or name a larger instance_type"
        )
    return Engine(
        shape=shape,
        instance=instance,
        stored=_stored(served, shape),
        kv_dtype=_choice(served, "kv_cache_dtype", KV_BYTES, "auto"),
        tensor_parallel=size,
        utilization=_number(served, "gpu_memory_utilization", 0.9),
        max_model_len=int(_number(served, "max_model_len", shape.longest)),
        concurrency=concurrency,
        vision=not served.arguments.get("language_model_only", False),
        eager=bool(served.arguments.get("enforce_eager", False)),
        block=_whole(served, "block_size"),
        max_num_seqs=_whole(served, "max_num_seqs"),
        max_num_batched_tokens=_whole(served, "max_num_batched_tokens"),
    )


def footprint(deployment: Deployment) -> Footprint:
    """What the deployment runs, as far as it costs by the hour."""
    nodes = [
        Nodes(group.name, group.instance_type, group.count, group.root_volume_gib)
        for group in deployment.gpu_nodes.groups
    ]
    system = deployment.system_nodes
    nodes.append(Nodes("system", system.instance_type, system.count, system.root_volume_gib))
    zones = len(deployment.zones)
    return Footprint(
        region=deployment.region,
        zones=zones,
        nodes=tuple(nodes),
        nat_gateways=zones if deployment.network.nat_gateways == "one-per-zone" else 1,
        interface_endpoints=len(deployment.network.interface_endpoints),
    )


def _stored(served: ServedEngine, shape: ModelShape) -> str:
    _choice(served, "dtype", dict.fromkeys(_TWO_BYTES), "auto")
    method = served.arguments.get("quantization")
    if method is None:
        return shape.weights
    return _STORED_BY_QUANTIZATION[_choice(served, "quantization", _STORED_BY_QUANTIZATION, "")]


def _choice(
    served: ServedEngine, name: str, known: dict[str, object] | dict[str, int] | dict[str, str], default: str
) -> str:
    value = served.arguments.get(name, default)
    if value not in known:
        problem = f"is not one that the planner can size; it knows {', '.join(sorted(known))}"
        raise UserError(served.fault(("engine_kwargs", name), value, problem))
    return str(value)


def _number(served: ServedEngine, name: str, default: float) -> float:
    value = served.arguments.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise UserError(served.fault(("engine_kwargs", name), value, "is not a number above 0; correct it"))
    return float(value)


def _whole(served: ServedEngine, name: str) -> int | None:
    return int(_number(served, name, 0)) or None
