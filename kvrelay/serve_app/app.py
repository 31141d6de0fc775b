"""The model that a Serve config serves: its engines, their sizes, and where each setting stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

from kvrelay.errors import InvalidFileError
from kvrelay.serve_app.config import (
    Application,
    EngineConfig,
    HttpOptions,
    KvTransfer,
    PlainApplication,
    PrefillDecodeApplication,
    ServeFile,
)
from kvrelay.settings import Role
from kvrelay.settings.faults import fault_line
from kvrelay.yaml_source import Document, Key, YamlPath

# Ray Serve's own default for max_replicas of an autoscaled LLM deployment is 10, of others 1; both are said to be
# subject to change, so a config without bounds counts as unbounded here.
UNBOUNDED = inf

# Ray's builder: prefill starts at 20000, decode is moved to 22000 so that they may share a host.
_SIDE_CHANNEL_PORT_BASE = {Role.PREFILL: 20000, Role.DECODE: 22000, None: 20000}


@dataclass(frozen=True)
class Replicas:
    """How many replicas of an engine run: at first, at least and at most (infinite where nothing bounds it)."""

    initial: int
    least: int
    most: float

    @property
    def scales(self) -> bool:
        """Whether Serve may change the number."""
        return self.least != self.most


@dataclass(frozen=True)
class Engine:
    """One engine of the app. `path` leads to its config in `document`; `role` is None in a plain app."""

    role: Role | None
    config: EngineConfig
    path: YamlPath
    document: Document = field(repr=False)

    @property
    def name(self) -> str:
        """`prefill`, `decode`, or `engine` in a plain app."""
        return self.role.value if self.role else "engine"

    @property
    def model_id(self) -> str:
        """The name that clients send."""
        return self.config.model_loading_config.model_id

    @property
    def model_source(self) -> str:
        """Where weights come from: a Hugging Face id, a path or a bucket URI; the model id where none is given."""
        source = self.config.model_loading_config.model_source
        if isinstance(source, Mapping):
            return str(source.get("bucket_uri") or self.model_id)
        return source or self.model_id

    @property
    def deployment_name(self) -> str:
        """Ray Serve's name of its deployment, as status and metrics show it."""
        prefix = self.role.value.capitalize() if self.role else "LLMServer"
        return f"{prefix}:{self.model_id.replace('/', '--').replace('.', '_')}"

    @property
    def arguments(self) -> Mapping[str, Any]:
        """`engine_kwargs` as written, unknown keys included."""
        value = self.get("engine_kwargs")
        return value if isinstance(value, Mapping) else {}

    @property
    def tensor_parallel(self) -> int:
        return self.config.engine_kwargs.tensor_parallel_size

    @property
    def pipeline_parallel(self) -> int:
        return self.config.engine_kwargs.pipeline_parallel_size

    @property
    def data_parallel(self) -> int:
        """Ranks of data-parallel attention; Serve runs each rank as a replica of its own, in a gang."""
        return self.config.engine_kwargs.data_parallel_size

    @property
    def bundles(self) -> tuple[Mapping[str, float], ...]:
        """Ray resources of one replica's workers, one bundle a worker, without the replica actor's own CPU."""
        group = self.config.placement_group_config
        if group and group.bundles is not None:
            return tuple(group.bundles)
        each = group.bundle_per_worker if group and group.bundle_per_worker is not None else {"GPU": 1.0}
        return (each,) * (self.tensor_parallel * self.pipeline_parallel)

    @property
    def gpus_per_replica(self) -> int:
        """Whole GPUs that one replica takes; 0 on CPU."""
        return round(sum(bundle.get("GPU", 0) for bundle in self.bundles))

    @property
    def cpus_per_replica(self) -> float:
        """Ray CPUs that one replica takes: its actor's (1 unless set) and its bundles'."""
        actor = self.config.deployment_config.ray_actor_options.num_cpus
        return (1 if actor is None else actor) + sum(bundle.get("CPU", 0) for bundle in self.bundles)

    @property
    def replicas(self) -> Replicas:
        """Replica bounds. Data-parallel ranks count as replicas, since each takes its own GPUs."""
        options, ranks = self.config.deployment_config, self.data_parallel
        if isinstance(options.num_replicas, int):
            count = max(options.num_replicas, ranks)
            return Replicas(count, count, count)
        scaling = options.autoscaling_config
        if scaling is None:
            return (
                Replicas(1, 1, UNBOUNDED) if options.num_replicas == "auto" else Replicas(ranks, ranks, ranks)
            )
        # Ray Serve LLM ignores a minimum of 0 since 2.51 (ray #59076).
        least = max(scaling.min_replicas, 1, ranks)
        most = UNBOUNDED if scaling.max_replicas is None else max(scaling.max_replicas, ranks)
        return Replicas(max(scaling.initial_replicas or least, least), least, most)

    @property
    def kv_transfer(self) -> KvTransfer | None:
        """How the KV cache is handed over; None in a plain app without it."""
        return self.config.engine_kwargs.kv_transfer_config

    @property
    def side_channel_port_base(self) -> int:
        """First port of NIXL's handshakes; each worker of each replica takes one from here on."""
        written = self.config.experimental_configs.get("NIXL_SIDE_CHANNEL_PORT_BASE")
        return written if isinstance(written, int) else _SIDE_CHANNEL_PORT_BASE[self.role]

    def get(self, *keys: Key) -> Any:
        """The raw value at a path below this engine's config; None when nothing stands there."""
        node = self.document.node((*self.path, *keys))
        return node.value if node else None

    def fault(self, keys: YamlPath, found: object, problem: str) -> str:
        """The line of a fault at a path below this engine's config: `file:line: path: value problem`."""
        return fault_line(self.document, (*self.path, *keys), found, problem)


@dataclass(frozen=True)
class ServeApp:
    """A Serve config that serves one model, with prefill and decode apart or (plain) with ordinary replicas.

    Made by `load_serve_app` or `parse_serve_app`. `config` is the whole file as plain data, every key of it,
    engine configs in files of their own put in their place; `typed` is its typed view. Change neither.
    """

    document: Document = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)
    typed: ServeFile = field(repr=False)
    application_index: int
    engines: tuple[Engine, ...]

    @property
    def file(self) -> str:
        """The file it was read from, as messages name it."""
        return self.document.file

    @property
    def application(self) -> Application:
        """The application that serves the model."""
        return self.typed.applications[self.application_index]

    @property
    def application_path(self) -> YamlPath:
        """The path of that application in the file."""
        return ("applications", self.application_index)

    @property
    def name(self) -> str:
        """The application's name in Serve."""
        return self.application.name

    @property
    def is_prefill_decode(self) -> bool:
        """Whether prefill and decode are apart."""
        return isinstance(self.application, PrefillDecodeApplication)

    @property
    def model_id(self) -> str:
        """The name that clients send."""
        return self.engines[0].model_id

    @property
    def model_source(self) -> str:
        """Where the weights come from."""
        return self.engines[0].model_source

    @property
    def http(self) -> HttpOptions:
        """Where Serve's proxies listen."""
        return self.typed.http_options

    @property
    def ingress_class(self) -> str | None:
        """The class that the file names to answer HTTP, if any."""
        application = self.application
        if not isinstance(application, PrefillDecodeApplication | PlainApplication):
            return None
        config = application.args.ingress_cls_config
        return config.ingress_cls if "ingress_cls" in config.model_fields_set else None

    @property
    def ingress_path(self) -> YamlPath:
        """The path of the ingress deployment's options, which may be missing."""
        return (*self.application_path, "args", "ingress_deployment_config")

    def engine(self, role: Role) -> Engine:
        """The engine of a role. Raises InvalidFileError in a plain app."""
        for engine in self.engines:
            if engine.role is role:
                return engine
        raise InvalidFileError(
            [
                fault_line(
                    self.document,
                    (*self.application_path, "import_path"),
                    self.application.import_path,
                    "makes ordinary replicas; use ray.serve.llm:build_pd_openai_app for prefill and decode",
                )
            ]
        )


def engines_of(
    application: Application, path: YamlPath
) -> Iterator[tuple[Role | None, EngineConfig, YamlPath]]:
    """The engines of an application with their roles and paths; nothing for an application of another kind."""
    if isinstance(application, PrefillDecodeApplication):
        yield Role.PREFILL, application.args.prefill_config, (*path, "args", "prefill_config")
        yield Role.DECODE, application.args.decode_config, (*path, "args", "decode_config")
    elif isinstance(application, PlainApplication):
        for index, config in enumerate(application.args.llm_configs):
            yield None, config, (*path, "args", "llm_configs", index)
