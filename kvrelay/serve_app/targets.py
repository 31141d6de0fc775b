"""Where an app can run: EFA nodes on EKS, GPUs of one host, or CPU. Each says what the config needs there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kvrelay.data import instance_type
from kvrelay.serve_app.app import Engine, ServeApp
from kvrelay.serve_app.ingress import INGRESS_MOUNT, clean_errors
from kvrelay.serve_app.model_families import family_needs
from kvrelay.serve_app.rendering import Edit, Kind
from kvrelay.serve_app.worker_groups import node_group_of, ray_resource
from kvrelay.settings import Deployment, Role

# vLLM takes ports from here upwards: far enough apart for both roles, and clear of Ray's and NIXL's.
_MASTER_PORT = {Role.PREFILL: 29400, Role.DECODE: 29600, None: 29400}
# vLLM's own default for the part of a GPU's memory that it takes.
_FILLED = 0.9
_NIXL = ("NixlConnector", "NixlPullConnector", "NixlPushConnector")


@dataclass(frozen=True)
class Nodes:
    """What an engine's nodes are like, as far as its config cares."""

    gpus: int
    gpudirect: bool
    """Whether EFA reads and writes GPU memory itself."""


@dataclass(frozen=True)
class Efa:
    """EKS nodes with EFA. Make it with `Efa.of(app, deployment)`."""

    nodes: Mapping[str, Nodes] = field(default_factory=dict)
    """By engine name; an engine without an entry is neither pinned nor told its buffer device."""
    model_source: str | None = None
    """Where weights lie on the node, when they come from a bucket."""
    name: str = "efa"

    @classmethod
    def of(cls, app: ServeApp, deployment: Deployment, model_source: str | None = None) -> Efa:
        """The EFA target as a deployment's node groups make it."""
        nodes = {}
        for engine in app.engines:
            kind = instance_type(node_group_of(engine, deployment).instance_type)
            nodes[engine.name] = Nodes(kind.gpu.count if kind.gpu else 0, kind.gpudirect_rdma)
        return cls(nodes, model_source)

    def edits(self, app: ServeApp) -> Iterator[Edit]:
        yield Edit(("proxy_location",), "EveryNode", "every node answers on its serve port")
        yield Edit(("http_options", "host"), "0.0.0.0", "other pods reach the endpoint")
        yield from _common(app)
        yield from clean_errors(app, INGRESS_MOUNT)
        for engine in app.engines:
            if self.model_source:
                yield _model_source(engine, self.model_source, "the weights were copied to the node's NVMe")
            yield from _transfer(
                engine, "LIBFABRIC", "EFA; the default UCX runs over TCP there, without an error"
            )
            nodes = self.nodes.get(engine.name)
            if nodes is None:
                continue
            if nodes.gpudirect and engine.kv_transfer:
                yield Edit(
                    (*engine.path, "engine_kwargs", "kv_transfer_config", "kv_buffer_device"),
                    "cuda",
                    "EFA reads and writes GPU memory itself here (GPUDirect RDMA)",
                    Kind.DEFAULT,
                )
            yield from _pinned(engine, nodes)


@dataclass(frozen=True)
class Loopback:
    """GPUs of one host, both roles beside each other."""

    model_source: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    """The serve port; the file's own when left out."""
    gpu_share: float | None = None
    """The part of a GPU that each engine takes, where several share one; a whole one each when left out."""
    name: str = "loopback"

    def edits(self, app: ServeApp) -> Iterator[Edit]:
        yield from _one_host(self.host, self.port)
        yield from _common(app)
        for engine in app.engines:
            if self.model_source:
                yield _model_source(engine, self.model_source, "the weights named on the command line")
            yield from _transfer(engine, "UCX", "one host: shared memory, NVLink or loopback")
            if engine.kv_transfer:
                yield Edit(
                    (*engine.path, "runtime_env", "env_vars", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"),
                    "on",
                    "without NVLink, UCX reads no other process's GPU memory unless told to, and takes TCP",
                    Kind.DEFAULT,
                )
            if self.gpu_share is not None:
                yield from _shared(engine, self.gpu_share)


@dataclass(frozen=True)
class Cpu:
    """A laptop's CPU, for a tiny model. Hybrid models cannot run so (vllm #58034): give `model_source` a dense one."""

    model_source: str | None = None
    host: str = "127.0.0.1"
    port: int | None = None
    replicas: int | None = 1
    """Replicas of each engine and of the ingress; the file's own bounds when None."""
    kv_cache_gib: int = 1
    max_model_len: int = 2048
    name: str = "cpu"

    def edits(self, app: ServeApp) -> Iterator[Edit]:
        yield from _one_host(self.host, self.port)
        yield from _common(app, self.model_source)
        for engine in app.engines:
            if self.model_source:
                yield _model_source(engine, self.model_source, "a model small enough for a CPU")
            yield from _transfer(engine, "UCX", "one host: shared memory or loopback")
            yield from self._engine(engine)
        yield from self._fewer(app.ingress_path)

    def _engine(self, engine: Engine) -> Iterator[Edit]:
        arguments = (*engine.path, "engine_kwargs")
        variables = (*engine.path, "runtime_env", "env_vars")
        for key in _GPU_ONLY_ARGUMENTS:
            yield Edit((*arguments, key), None, "has no meaning on one CPU", Kind.REMOVE)
        yield Edit((*engine.path, "accelerator_type"), None, "Ray refuses it beside CPU", Kind.REMOVE)
        yield Edit((*engine.path, "accelerator_config"), {"kind": "cpu"}, "no GPU is asked of Ray")
        bundles = {"bundles": [{"CPU": 0.5}]}
        yield Edit((*engine.path, "placement_group_config"), bundles, "both engines fit on two cores")
        yield from self._fewer((*engine.path, "deployment_config"))
        length = engine.arguments.get("max_model_len")
        if not isinstance(length, int) or length > self.max_model_len:
            yield Edit((*arguments, "max_model_len"), self.max_model_len, "what the cache below can hold")
        yield Edit((*arguments, "dtype"), "float32", "bfloat16 is slow or missing on CPUs")
        yield Edit((*arguments, "enforce_eager"), True, "compiling costs more than it saves here")
        block = engine.arguments.get("block_size")
        if not isinstance(block, int) or block % 32:
            yield Edit((*arguments, "block_size"), 32, "vLLM on CPU needs a multiple of 32")
        for need in family_needs(engine.model_source) if self.model_source else ():
            yield Edit(
                (*variables, need.variable), None, "belongs to the model that the file names", Kind.REMOVE
            )
        # vLLM reads whole GiB.
        yield Edit((*variables, "VLLM_CPU_KVCACHE_SPACE"), str(self.kv_cache_gib), "GiB of KV cache")
        yield Edit((*variables, "VLLM_CPU_OMP_THREADS_BIND"), "nobind", "two engines share the cores")
        yield Edit((*variables, "OMP_NUM_THREADS"), "1", "two engines share the cores")
        yield Edit(
            (*variables, "VLLM_NIXL_SIDE_CHANNEL_HOST"), "127.0.0.1", "handshakes stay on this machine"
        )
        yield Edit(
            (*engine.path, "experimental_configs", "stream_batching_interval_ms"),
            0,
            "else tokens come in batches of 50 ms",
            Kind.DEFAULT,
        )

    def _fewer(self, options: tuple[str | int | float | bool | None, ...]) -> Iterator[Edit]:
        if self.replicas is not None:
            yield Edit((*options, "num_replicas"), self.replicas, "as many as two cores carry")
            reason = "num_replicas is set, and Serve refuses both"
            yield Edit((*options, "autoscaling_config"), None, reason, Kind.REMOVE)
        yield Edit((*options, "ray_actor_options", "num_cpus"), 0.1, "all actors fit on two cores")


# Arguments of vLLM that need a GPU, several of them, or the model that the file names.
_GPU_ONLY_ARGUMENTS = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "enable_expert_parallel",
    "gpu_memory_utilization",
    "kv_cache_memory_bytes",
    "quantization",
    "kv_cache_dtype",
    "attention_backend",
    "compilation_config",
    "cudagraph_capture_sizes",
    "language_model_only",
    "limit_mm_per_prompt",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "reasoning_parser",
    "tool_call_parser",
    "enable_auto_tool_choice",
    "hf_overrides",
    "max_num_batched_tokens",
)


def _one_host(host: str, port: int | None) -> Iterator[Edit]:
    yield Edit(("proxy_location",), "HeadOnly", "one host, one proxy")
    yield Edit(("http_options", "host"), host, "nobody else reaches the endpoint")
    if port is not None:
        yield Edit(("http_options", "port"), port, "the port asked for")


def _common(app: ServeApp, model_source: str | None = None) -> Iterator[Edit]:
    yield Edit(
        (*app.application_path, "runtime_env", "env_vars", "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS"),
        "0",
        "Ray logs every prompt by default",
        Kind.DEFAULT,
    )
    for engine in app.engines:
        variables = (*engine.path, "runtime_env", "env_vars")
        yield Edit(
            (*variables, "VLLM_DP_MASTER_PORT"),
            str(_MASTER_PORT[engine.role]),
            "engines that start together on one host race for the default port",
            Kind.DEFAULT,
        )
        for need in family_needs(model_source or engine.model_source) if engine.kv_transfer else ():
            yield Edit((*variables, need.variable), need.value, need.reason)


def _transfer(engine: Engine, backend: str, reason: str) -> Iterator[Edit]:
    if engine.kv_transfer is None or engine.kv_transfer.kv_connector not in _NIXL:
        return
    settings = (*engine.path, "engine_kwargs", "kv_transfer_config", "kv_connector_extra_config")
    yield Edit((*settings, "backends"), [backend], reason)
    yield Edit(
        (*engine.path, "experimental_configs", "NIXL_SIDE_CHANNEL_PORT_BASE"),
        engine.side_channel_port_base,
        "its own range for NIXL's handshakes, whoever shares the host",
        Kind.DEFAULT,
    )


def _shared(engine: Engine, share: float) -> Iterator[Edit]:
    """Ray counts what is asked of it, vLLM what it takes: both are told the same part of the GPU."""
    reason = "engines share a GPU"
    yield Edit((*engine.path, "placement_group_config"), {"bundle_per_worker": {"GPU": share}}, reason)
    variables = (*engine.path, "runtime_env", "env_vars")
    yield Edit(
        (*variables, "VLLM_RAY_PER_WORKER_GPUS"), str(share), "vLLM's workers ask for a whole GPU else"
    )
    path = (*engine.path, "engine_kwargs", "gpu_memory_utilization")
    yield Edit(path, round(_FILLED * share, 3), reason)


def _pinned(engine: Engine, nodes: Nodes) -> Iterator[Edit]:
    """Each bundle asks for a bit of the resource that only the role's own worker group has."""
    pin = {ray_resource(engine.name): 0.001}
    path = (*engine.path, "placement_group_config")
    reason = f"{engine.name} runs on its own worker group only"
    group = engine.config.placement_group_config
    if group and group.bundles is not None:
        for index in range(len(group.bundles)):
            yield Edit((*path, "bundles", index, *pin), pin[ray_resource(engine.name)], reason)
    else:
        bundle = group.bundle_per_worker if group and group.bundle_per_worker is not None else {"GPU": 1}
        for resource, amount in {**bundle, **pin}.items():
            kind = Kind.SET if resource in pin else Kind.DEFAULT
            yield Edit((*path, "bundle_per_worker", resource), amount, reason, kind)
    if 1 < engine.gpus_per_replica <= nodes.gpus:
        yield Edit(
            (*path, "strategy"),
            "STRICT_PACK",
            "tensor parallel over the network is slow: one node a replica",
            Kind.DEFAULT,
        )


def _model_source(engine: Engine, source: str, reason: str) -> Edit:
    return Edit((*engine.path, "model_loading_config", "model_source"), source, reason)
