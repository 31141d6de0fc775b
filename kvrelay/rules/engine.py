"""EN: one engine's own settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvrelay.rules.kinds import EngineRule
from kvrelay.rules.known_keys import known, meant
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Engine
from kvrelay.rules.value import Value

_CONFIG = "Ray 2.58, ray/llm, configs/llm_config.py"
_MODELS = "Ray 2.58, ray/llm, engines/vllm/vllm_models.py"
_SCHEDULER = "vLLM 0.26, vllm/config/scheduler.py"
_REMOVED = {
    "resources_per_bundle": "placement_group_config: {bundle_per_worker: ...}",
    "tensor_parallelism": "engine_kwargs: {tensor_parallel_size: ...}",
}


class UnknownEngineKey(EngineRule):
    """Ray refuses an LLMConfig with a key that it does not know; vLLM's arguments belong in `engine_kwargs`."""

    number = "EN001"
    level = Level.ERROR
    mend = "Correct the key, or move an engine's argument into engine_kwargs"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        for key, value in part.config.entries():
            if key in known("llm_config"):
                continue
            if key in _REMOVED:
                yield self.found(value, f"{key} is no longer a key of LLMConfig", f"Write {_REMOVED[key]}")
            elif key in known("engine_arguments"):
                yield self.found(value, f"{key} is an engine argument", "Move it into engine_kwargs")
            elif name := meant(key, "llm_config"):
                yield self.found(value, f"{key} is no key of LLMConfig", f"Write {name}")


class UnknownEngineArgument(EngineRule):
    """Ray refuses arguments that vLLM does not know, once the replica has started on its node."""

    number = "EN002"
    level = Level.ERROR
    mend = "Correct the argument"
    source = _MODELS

    def check(self, part: Engine) -> Iterator[Finding]:
        for key, value in part.arguments.entries():
            if key in known("llm_config") and key not in known("engine_arguments"):
                yield self.found(value, f"{key} belongs beside engine_kwargs", "Move it one level up")
            elif name := meant(key, "engine_arguments", "frontend_arguments"):
                yield self.found(value, f"{key} is no argument of the engine", f"Write {name}")


class ModelAmongArguments(EngineRule):
    """Ray sets the model and its served name itself and refuses them among the engine's arguments."""

    number = "EN003"
    level = Level.ERROR
    mend = "Use model_loading_config: {model_id: ..., model_source: ...}"
    source = _MODELS

    def check(self, part: Engine) -> Iterator[Finding]:
        for name in ("model", "served_model_name"):
            value = part.arguments[name]
            if value.exists:
                yield self.found(value, f"{name} stands in engine_kwargs")


class NotRayExecutor(EngineRule):
    """On GPUs Ray places the engine's workers itself and refuses any other executor."""

    number = "EN004"
    level = Level.ERROR
    mend = "Remove distributed_executor_backend"
    source = _MODELS

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["distributed_executor_backend"]
        if value.exists and value.raw != "ray" and not part.on_cpu:
            yield self.found(value, f"the executor {value.shown} is refused on GPUs")


class UnsupportedEngine(EngineRule):
    """Ray Serve LLM's configs run one engine."""

    number = "EN005"
    level = Level.ERROR
    mend = "Write vLLM, or remove llm_engine"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.config["llm_engine"]
        if value.text and value.text != "vLLM" and not part.config["server_cls"].exists:
            yield self.found(value, f"{value.shown} is no engine of Ray Serve LLM")


class UnknownAccelerator(EngineRule):
    """Ray knows GPUs by its own names, in its own spelling; any other is refused."""

    number = "EN006"
    level = Level.ERROR
    mend = "Use Ray's name, such as L4, L40S, A10G, H100"
    source = "https://docs.ray.io/en/latest/ray-core/accelerator-types.html"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.config["accelerator_type"]
        name = (value.text or "").lower().replace("_", "-")
        if not name or value.text in known("accelerators") or name == "a10":
            return
        short = name.removeprefix("nvidia-").removeprefix("tesla-").partition("-")[0]
        meant_names = [each for each in known("accelerators") if each.lower() in {name, short}]
        if meant_names:
            yield self.found(value, f"{value.shown} is no accelerator of Ray's", f"Write {meant_names[0]}")


class AcceleratorOnCpu(EngineRule):
    """Ray refuses an accelerator type for an engine whose bundles or config say CPU."""

    number = "EN007"
    level = Level.ERROR
    mend = "Remove accelerator_type, or give the bundles a GPU"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.config["accelerator_type"]
        if value.exists and part.on_cpu:
            yield self.found(value, f"names the accelerator {value.shown} for an engine on CPU")


class BundlesTooSmall(EngineRule):
    """Each worker of the engine takes a GPU of the placement group: with fewer than tensor times pipeline parallel
    size the engine finds no place for some."""

    number = "EN008"
    level = Level.ERROR
    mend = "Write one bundle with a GPU for each worker, or bundle_per_worker"
    source = _MODELS

    def check(self, part: Engine) -> Iterator[Finding]:
        bundles = part.config.at("placement_group_config", "bundles")
        counts = [bundle["GPU"].number for bundle in bundles.items() if bundle["GPU"].exists]
        if part.on_cpu or not counts or any(count is None for count in counts):
            return
        total = sum(count for count in counts if count is not None)
        if total >= 1 and total < part.gpus:
            yield self.found(bundles, f"holds {total:g} GPUs for an engine of {part.gpus}")


class FractionalGpu(EngineRule):
    """Two engines on one GPU move the cache by software emulation, 0.4 GB/s, and vLLM's workers find no bundle
    unless VLLM_RAY_PER_WORKER_GPUS was set before Ray started."""

    number = "EN009"
    level = Level.WARNING
    mend = "Give each worker a whole GPU"
    source = "seen on real GPUs with Ray 2.58 and vLLM 0.26"

    def check(self, part: Engine) -> Iterator[Finding]:
        group = part.config["placement_group_config"]
        for bundle in [*group["bundles"].items(), group["bundle_per_worker"]]:
            gpus = bundle["GPU"]
            if part.role and gpus.number is not None and 0 < gpus.number < 1:
                yield self.found(gpus, f"gives a worker {gpus.shown} of a GPU")


class MemoryShareOutOfRange(EngineRule):
    """vLLM takes a fraction above 0 and up to 1."""

    number = "EN010"
    level = Level.ERROR
    mend = "Use 0.85 to 0.92"
    source = "vLLM 0.26, vllm/config/cache.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["gpu_memory_utilization"]
        if value.exists and (value.number is None or not 0 < value.number <= 1):
            yield self.found(value, f"gpu_memory_utilization is {value.shown}, not a fraction of 1")


class MemoryShareTight(EngineRule):
    """Above 0.95 little is left for CUDA graphs, NCCL and the buffers of the transfer: engines run out of memory
    under load, not at their start."""

    number = "EN011"
    level = Level.WARNING
    mend = "Use 0.85 to 0.92"
    source = "vLLM's documentation, configuration/conserving_memory"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["gpu_memory_utilization"]
        if value.number is not None and 0.95 < value.number <= 1:
            yield self.found(value, f"gpu_memory_utilization is {value.shown}")


class BatchBelowLength(EngineRule):
    """Without chunked prefill a whole prompt must fit in one batch."""

    number = "EN012"
    level = Level.ERROR
    mend = "Raise max_num_batched_tokens to max_model_len, or leave chunked prefill on"
    source = _SCHEDULER

    def check(self, part: Engine) -> Iterator[Finding]:
        batch, length = part.arguments["max_num_batched_tokens"], part.arguments["max_model_len"]
        chunked = part.arguments["enable_chunked_prefill"]
        if chunked.raw is False and batch.whole and length.whole and batch.whole < length.whole:
            yield self.found(batch, f"a batch of {batch.whole} tokens holds no prompt of {length.whole}")


class BatchBelowSequences(EngineRule):
    """Each running sequence takes a token of each batch: vLLM refuses fewer tokens than sequences."""

    number = "EN013"
    level = Level.ERROR
    mend = "Raise max_num_batched_tokens or lower max_num_seqs"
    source = _SCHEDULER

    def check(self, part: Engine) -> Iterator[Finding]:
        batch, sequences = part.arguments["max_num_batched_tokens"], part.arguments["max_num_seqs"]
        if batch.whole and sequences.whole and batch.whole < sequences.whole:
            yield self.found(
                batch, f"a batch of {batch.whole} tokens is less than {sequences.whole} sequences"
            )


class UnknownDtype(EngineRule):
    """vLLM knows six names for the type of weights and activations; quantization is another setting."""

    number = "EN014"
    level = Level.ERROR
    mend = "Use auto, bfloat16, float16 or float32"
    source = "vLLM 0.26, vllm/config/model.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["dtype"]
        if value.exists and value.scalar not in {"auto", "half", "float16", "bfloat16", "float", "float32"}:
            yield self.found(value, f"{value.shown} is no dtype of vLLM")


class StatsOff(EngineRule):
    """Ray refuses engine metrics without the engine's statistics; the transfer can't be watched without them."""

    number = "EN015"
    level = Level.ERROR
    mend = "Remove disable_log_stats"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["disable_log_stats"]
        if value.is_true and part.config["log_engine_metrics"].raw is not False:
            yield self.found(value, "switches off the statistics that engine metrics need")


class LengthNotANumber(EngineRule):
    """A model length is a number of tokens, a number with a unit (`4k`), or -1 or `auto` for what fits."""

    number = "EN016"
    level = Level.ERROR
    mend = "Write a whole number of tokens, such as 4096"
    source = "vLLM 0.26, vllm/engine/arg_utils.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["max_model_len"]
        if value.number is not None and (value.whole is None or (value.whole < 1 and value.whole != -1)):
            yield self.found(value, f"max_model_len is {value.shown}")


class RenamedRouterReplicas(EngineRule):
    """Ray refuses the old name."""

    number = "EN017"
    level = Level.ERROR
    mend = "Write num_ingress_replicas"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.config.at("experimental_configs", "num_router_replicas")
        if value.exists:
            yield self.found(value, "num_router_replicas has been renamed")


class NoModelId(EngineRule):
    """Clients name the model by its id; Ray refuses an engine without one, or with other keys beside it."""

    number = "EN018"
    level = Level.ERROR
    mend = "Write model_loading_config: {model_id: ..., model_source: ...}"
    source = _CONFIG

    def check(self, part: Engine) -> Iterator[Finding]:
        loading = part.config["model_loading_config"]
        if not loading["model_id"].exists:
            yield self.found(loading, "has no model_id")
        for key, value in loading.entries():
            if name := meant(key, "model_loading"):
                yield self.found(value, f"{key} is no key of model_loading_config", f"Write {name}")


class PackagesAtStart(EngineRule):
    """Packages of a runtime environment are installed on each node at each start, over the image's own: nixl-cu12
    beside the image's nixl-cu13 overwrite each other's libraries, another vLLM or torch no longer match."""

    number = "EN019"
    level = Level.WARNING
    mend = "Build an image on top of the container instead (container/Dockerfile)"
    source = "NIXL 1.3 wheels; https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"

    def check(self, part: Engine) -> Iterator[Finding]:
        for environment in (part.config["runtime_env"], part.app.value["runtime_env"]):
            for installer in ("pip", "uv"):
                for package in _packages(environment[installer]):
                    name = (package.text or "").strip().lower().replace("_", "-")
                    if name.startswith(("nixl", "vllm", "torch", "ray=", "ray[")) or name == "ray":
                        yield self.found(package, f"installs {package.shown} over the image's own")


def _packages(value: Value) -> Iterator[Value]:
    yield from value.items()
    yield from value["packages"].items()


RULES: tuple[Rule[Any], ...] = (
    UnknownEngineKey(),
    UnknownEngineArgument(),
    ModelAmongArguments(),
    NotRayExecutor(),
    UnsupportedEngine(),
    UnknownAccelerator(),
    AcceleratorOnCpu(),
    BundlesTooSmall(),
    FractionalGpu(),
    MemoryShareOutOfRange(),
    MemoryShareTight(),
    BatchBelowLength(),
    BatchBelowSequences(),
    UnknownDtype(),
    StatsOff(),
    LengthNotANumber(),
    RenamedRouterReplicas(),
    NoModelId(),
    PackagesAtStart(),
)
