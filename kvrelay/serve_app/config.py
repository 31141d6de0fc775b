"""A Ray Serve LLM config as typed objects. Keys that are not named here pass through untouched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    field_validator,
    model_validator,
)

PREFILL_DECODE_BUILDER = "ray.serve.llm:build_pd_openai_app"
PLAIN_BUILDER = "ray.serve.llm:build_openai_app"

# What vLLM 0.26's KVConnectorFactory registers; kv_connector_module_path brings others.
KV_CONNECTORS = (
    "NixlConnector",
    "NixlPullConnector",
    "NixlPushConnector",
    "LMCacheConnectorV1",
    "LMCacheMPConnector",
    "MooncakeConnector",
    "MooncakeStoreConnector",
    "MoRIIOConnector",
    "MultiConnector",
    "OffloadingConnector",
    "SimpleCPUOffloadConnector",
    "FlexKVConnectorV1",
    "HF3FSKVConnector",
    "DecodeBenchConnector",
    "ExampleConnector",
    "ExampleHiddenStatesConnector",
)

Text = Annotated[str, StringConstraints(min_length=1)]
Size = Annotated[int, Field(ge=1, le=100_000)]
Count = Annotated[int, Field(ge=0, le=100_000)]


class Part(BaseModel):
    """What all parts share: unknown keys are kept (Ray and vLLM judge them), nothing changes after reading."""

    model_config = ConfigDict(extra="allow", frozen=True)


class KvTransfer(Part):
    """vLLM's `kv_transfer_config`: how the KV cache gets from one engine to the other."""

    kv_connector: Text
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | None = None
    kv_buffer_device: Text | None = None
    """Where NIXL registers the cache; vLLM's platform decides when left out."""
    engine_id: Text | None = None
    kv_connector_module_path: Text | None = None
    kv_connector_extra_config: dict[str, Any] = {}

    @model_validator(mode="after")
    def _known_connector(self) -> KvTransfer:
        if self.kv_connector not in KV_CONNECTORS and self.kv_connector_module_path is None:
            raise ValueError(
                f"names the connector {self.kv_connector}, which vLLM does not have; use NixlConnector, "
                "or set kv_connector_module_path where it is one of yours"
            )
        return self

    @field_validator("kv_connector_extra_config")
    @classmethod
    def _backends_are_a_list(cls, extra: dict[str, Any]) -> dict[str, Any]:
        backends = extra.get("backends", [])
        if not isinstance(backends, list) or not all(isinstance(name, str) for name in backends):
            raise ValueError("has backends that are not a list of names; write backends: [LIBFABRIC]")
        return extra

    @property
    def backends(self) -> tuple[str, ...]:
        """NIXL backends; vLLM's default is UCX alone."""
        return tuple(self.kv_connector_extra_config.get("backends", ("UCX",)))


class EngineArguments(Part):
    """`engine_kwargs`: vLLM's own arguments. Only those that decide placement are named here."""

    tensor_parallel_size: Size = 1
    pipeline_parallel_size: Size = 1
    data_parallel_size: Size = 1
    kv_transfer_config: KvTransfer | None = None


class ModelLoading(Part):
    """Which model, under which name, from where."""

    model_id: Text
    model_source: Any = None
    """A Hugging Face id, a path, a bucket URI, or Ray's mirror settings; the model id when left out."""

    @field_validator("model_source")
    @classmethod
    def _text_or_mirror(cls, source: Any) -> Any:
        if source is not None and not isinstance(source, str | dict):
            raise ValueError("is no source of weights; write a Hugging Face id, a path or a bucket URI")
        return source


class Autoscaling(Part):
    """Serve's `autoscaling_config`."""

    min_replicas: Count = 1
    initial_replicas: Count | None = None
    max_replicas: Size | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Autoscaling:
        if self.max_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError(
                f"asks for at least {self.min_replicas} and at most {self.max_replicas} replicas; "
                "keep min_replicas <= max_replicas"
            )
        return self


class ActorOptions(Part):
    """Serve's `ray_actor_options`."""

    num_cpus: Annotated[float, Field(ge=0)] | None = None
    resources: dict[str, float] = {}


class DeploymentOptions(Part):
    """Serve's options of one deployment (`deployment_config`, `ingress_deployment_config`)."""

    num_replicas: Any = None
    autoscaling_config: Autoscaling | None = None
    ray_actor_options: ActorOptions = ActorOptions()

    @field_validator("num_replicas")
    @classmethod
    def _a_number_or_auto(cls, count: Any) -> Any:
        if count in (None, "auto") or (isinstance(count, int) and count >= 1 and count is not True):
            return count
        raise ValueError("is no number of replicas; write 1 or more, or auto")


class PlacementGroup(Part):
    """`placement_group_config`: the Ray resources that an engine's workers take."""

    bundle_per_worker: dict[str, float] | None = None
    bundles: Annotated[list[dict[str, float]], Field(min_length=1)] | None = None
    strategy: Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"] = "PACK"

    @model_validator(mode="after")
    def _one_of_two(self) -> PlacementGroup:
        if (self.bundle_per_worker is None) == (self.bundles is None):
            raise ValueError("needs bundle_per_worker or bundles, and not both; keep one of them")
        return self


class RuntimeEnv(Part):
    """Ray's `runtime_env`, of which the environment variables matter here."""

    env_vars: dict[str, str] = {}


class EngineConfig(Part):
    """One engine: Ray's LLMConfig."""

    model_loading_config: ModelLoading
    engine_kwargs: EngineArguments = EngineArguments()
    accelerator_type: Text | None = None
    placement_group_config: PlacementGroup | None = None
    deployment_config: DeploymentOptions = DeploymentOptions()
    runtime_env: RuntimeEnv = RuntimeEnv()
    experimental_configs: dict[str, Any] = {}


class IngressClass(Part):
    """`ingress_cls_config`: what answers HTTP, and its arguments."""

    ingress_cls: Text = "ray.serve.llm.ingress:OpenAiIngress"
    ingress_extra_kwargs: dict[str, Any] = {}

    @field_validator("ingress_cls")
    @classmethod
    def _names_a_class(cls, name: str) -> str:
        module, _, attribute = name.replace(":", ".").rpartition(".")
        if not module or not attribute.isidentifier():
            raise ValueError("is no class that Ray can import; write module:Class")
        return name


class PrefillDecodeArgs(Part):
    """Arguments of `build_pd_openai_app`."""

    prefill_config: EngineConfig
    decode_config: EngineConfig
    ingress_deployment_config: DeploymentOptions = DeploymentOptions()
    ingress_cls_config: IngressClass = IngressClass()


class PlainArgs(Part):
    """Arguments of `build_openai_app`."""

    llm_configs: Annotated[list[EngineConfig], Field(min_length=1)]
    ingress_deployment_config: DeploymentOptions = DeploymentOptions()
    ingress_cls_config: IngressClass = IngressClass()


class Application(Part):
    """Any application of a Serve config."""

    name: Text = "default"
    import_path: Text
    route_prefix: str | None = "/"
    runtime_env: RuntimeEnv = RuntimeEnv()


class PrefillDecodeApplication(Application):
    """One that serves a model with prefill and decode apart."""

    args: PrefillDecodeArgs


class PlainApplication(Application):
    """One that serves models with ordinary replicas."""

    args: PlainArgs


def builder_of(application: object) -> str:
    """`module:function` of an application's import path, whichever way it is written; empty for none."""
    path = application.get("import_path") if isinstance(application, Mapping) else None
    if isinstance(application, Application):
        path = application.import_path
    if not isinstance(path, str):
        return ""
    module, _, name = path.replace(":", ".").rpartition(".")
    return f"{module}:{name}"


def _kind(application: object) -> str:
    if isinstance(application, PrefillDecodeApplication):
        return "prefill-decode"
    if isinstance(application, PlainApplication):
        return "plain"
    return {PREFILL_DECODE_BUILDER: "prefill-decode", PLAIN_BUILDER: "plain"}.get(
        builder_of(application), "other"
    )


class HttpOptions(Part):
    """Where Serve's proxies listen. Ray's own default is 127.0.0.1:8000."""

    host: Text = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8000


class ServeFile(Part):
    """A whole Serve config, as `serve run` and RayService's `serveConfigV2` take it."""

    proxy_location: Text = "EveryNode"
    http_options: HttpOptions = HttpOptions()
    applications: Annotated[
        list[
            Annotated[
                Annotated[PrefillDecodeApplication, Tag("prefill-decode")]
                | Annotated[PlainApplication, Tag("plain")]
                | Annotated[Application, Tag("other")],
                Discriminator(_kind),
            ]
        ],
        Field(min_length=1),
    ]
