"""Ray Serve configs as rules see them: applications, engines and their KV transfer settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from kvrelay.rules.manifests import RayCluster
from kvrelay.rules.value import Value

PREFILL_DECODE_BUILDER = "build_pd_openai_app"
_LLM_MODULES = ("ray.serve.llm", "ray.llm")


@dataclass(frozen=True)
class Engine:
    """One engine of an application: an LLMConfig in Ray's words. `role` is None outside prefill/decode."""

    app: Application
    config: Value
    role: str | None = None

    @property
    def arguments(self) -> Value:
        return self.config["engine_kwargs"]

    @property
    def transfer(self) -> Value:
        return self.arguments["kv_transfer_config"]

    @property
    def transfer_options(self) -> Value:
        return self.transfer["kv_connector_extra_config"]

    @property
    def deployment(self) -> Value:
        return self.config["deployment_config"]

    @property
    def environment(self) -> Value:
        return self.config.at("runtime_env", "env_vars")

    @property
    def model_source(self) -> Value:
        """Where weights come from: `model_source`, or the model id without one."""
        loading = self.config["model_loading_config"]
        return loading["model_source"] if loading["model_source"].exists else loading["model_id"]

    def variable(self, name: str) -> Value:
        """An environment variable of the engine: its own, or the application's."""
        own = self.environment[name]
        shared = self.app.value.at("runtime_env", "env_vars", name)
        return shared if not own.exists and shared.exists else own

    def size(self, name: str) -> int:
        """A parallel size such as `tensor_parallel_size`; 1 when left out."""
        return self.arguments[name].whole or 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica."""
        return self.size("tensor_parallel_size") * self.size("pipeline_parallel_size")

    @property
    def on_cpu(self) -> bool:
        """Whether it is made for CPU: said, or its bundles have no GPU."""
        if self.config.at("accelerator_config", "kind").text == "cpu":
            return True
        bundles = [
            *self.config.at("placement_group_config", "bundles").items(),
            self.config.at("placement_group_config", "bundle_per_worker"),
        ]
        present = [bundle for bundle in bundles if bundle.is_mapping]
        return bool(present) and not any(bundle["GPU"].exists or bundle["TPU"].exists for bundle in present)

    @property
    def on_efa(self) -> bool:
        """Whether the manifest around it runs it in pods with EFA interfaces."""
        cluster = self.app.serve.cluster
        return cluster is not None and cluster.uses_efa

    @property
    def replicas(self) -> int | None:
        """Replicas that run at least; None when it can't be told."""
        fixed = self.deployment["num_replicas"]
        least = self.deployment.at("autoscaling_config", "min_replicas")
        if fixed.exists and fixed.whole is None and fixed.text != "auto":
            return None
        # Serve runs each data-parallel rank as a replica of its own.
        return max(fixed.whole or least.whole or 1, self.size("data_parallel_size"))


@dataclass(frozen=True)
class Application:
    """One application of a Serve config."""

    serve: ServeConfig
    value: Value

    @property
    def arguments(self) -> Value:
        return self.value["args"]

    @property
    def builder(self) -> str:
        """The builder's name when it is one of Ray Serve LLM's; else empty."""
        path = self.value["import_path"].text or ""
        module, _, attribute = path.replace(":", ".").rpartition(".")
        return attribute if module.startswith(_LLM_MODULES) else ""

    @property
    def is_prefill_decode(self) -> bool:
        return self.builder == PREFILL_DECODE_BUILDER

    @cached_property
    def roles(self) -> dict[str, Engine]:
        """The engines of a prefill/decode application that are written in the file, by role."""
        if not self.is_prefill_decode:
            return {}
        return {
            role: Engine(self, self._inlined(f"{role}_config"), role)
            for role in ("prefill", "decode")
            if self._inlined(f"{role}_config").is_mapping
        }

    def _inlined(self, name: str) -> Value:
        return self.serve.referenced.get(self.arguments[name].text or "", self.arguments[name])

    @cached_property
    def engines(self) -> list[Engine]:
        """Every engine that is written in the file."""
        if self.is_prefill_decode:
            return list(self.roles.values())
        if not self.builder:
            return []
        single = self.arguments["llm_config"]
        configs = [*self.arguments["llm_configs"].items(), single]
        return [Engine(self, config) for config in configs if config.is_mapping]

    @property
    def deployment_options(self) -> Iterator[tuple[Value, str]]:
        """Every mapping of Serve's deployment options in it, with whether it is an engine's or another's."""
        for engine in self.engines:
            if engine.deployment.is_mapping:
                yield engine.deployment, "engine"
        for entry in self.value["deployments"].items():
            yield entry, "listed"
        ingress = self.arguments["ingress_deployment_config"]
        if self.builder and ingress.is_mapping:
            yield ingress, "ingress"


@dataclass(frozen=True)
class ServeConfig:
    """A Ray Serve config: a file of its own, or the `serveConfigV2` of a RayService."""

    value: Value
    cluster: RayCluster | None = None
    """The Ray cluster of the RayService around it."""
    referenced: dict[str, Value] = field(default_factory=dict)
    """Engine configs in files of their own, by the path that the config names."""

    @cached_property
    def applications(self) -> list[Application]:
        if self.value["applications"].is_list:
            return [Application(self, value) for value in self.value["applications"].items()]
        return [Application(self, self.value)] if self.value["import_path"].exists else []
