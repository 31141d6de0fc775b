"""KV: what prefill and decode must have alike, so that decode can read prefill's cache; hybrid models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvrelay.rules.kinds import EngineRule, PairRule
from kvrelay.rules.models import is_hybrid
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Application, Engine

_HASH = "vLLM 0.26, nixl/metadata.py: compute_nixl_compatibility_hash"
_CHECKS = "vLLM 0.26, nixl/base_worker.py: _validate_remote_agent_handshake"
_SAME_DTYPE = {"half": "float16", "float": "float32"}
_UNSET = {None, "auto"}
_DEFAULT_BLOCK = 16


class UnlikeModelIds(PairRule):
    """Ray refuses the application when the two roles serve different model ids."""

    number = "KV030"
    level = Level.ERROR
    mend = "Give both roles the same model_id"
    source = "Ray 2.58, ray/llm, prefill_decode/builder.py"

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = (
            part.roles[role].config.at("model_loading_config", "model_id") for role in ("prefill", "decode")
        )
        if prefill.exists and decode.exists and prefill.raw != decode.raw:
            yield self.found(decode, f"decode serves {decode.shown}, prefill {prefill.shown}")


class UnlikeModels(PairRule):
    """The handshake compares the model's name: decode refuses a cache of another model, or of the same one under
    another path."""

    number = "KV031"
    level = Level.ERROR
    mend = "Give both roles the same model_source"
    source = _HASH

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = (part.roles[role].model_source for role in ("prefill", "decode"))
        if prefill.exists and decode.exists and prefill.raw != decode.raw:
            yield self.found(decode, f"decode loads {decode.shown}, prefill {prefill.shown}")


class UnlikeCaches(PairRule):
    """The handshake compares what gives the cache its bytes: dtype, cache dtype, attention backend, hybrid cache
    manager. Engines that differ refuse each other at the first request, not at their start."""

    number = "KV032"
    level = Level.ERROR
    mend = "Give both roles the same value"
    source = _HASH

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = part.roles["prefill"].arguments, part.roles["decode"].arguments
        for name in ("dtype", "attention_backend"):
            ours, theirs = decode[name], prefill[name]
            if ours.scalar in _UNSET or theirs.scalar in _UNSET or not (ours.text and theirs.text):
                continue
            if _SAME_DTYPE.get(ours.text, ours.text) != _SAME_DTYPE.get(theirs.text, theirs.text):
                yield self.found(ours, f"decode's {name} is {ours.shown}, prefill's {theirs.shown}")
        ours, theirs = decode["kv_cache_dtype"], prefill["kv_cache_dtype"]
        if (ours.text or "auto") != (theirs.text or "auto") and any(
            (value.text or "").startswith("fp8") for value in (ours, theirs)
        ):
            yield self.found(
                ours, f"decode's kv_cache_dtype is {ours.text or 'auto'}, prefill's {theirs.text or 'auto'}"
            )
        ours, theirs = decode["disable_hybrid_kv_cache_manager"], prefill["disable_hybrid_kv_cache_manager"]
        if ours.is_true != theirs.is_true:
            yield self.found(ours, "only one of the roles has the hybrid KV cache manager")


class UnlikeBlocks(PairRule):
    """Caches are moved block by block. Engines accept a block size that divides the other's, and then answer wrongly
    without a word."""

    number = "KV033"
    level = Level.ERROR
    mend = "Give both roles the same block_size"
    source = "seen on an H200 with blocks of 16 and 32, vLLM 0.26: docs/benchmarks.md, question 6"

    def check(self, part: Application) -> Iterator[Finding]:
        ours, theirs = (part.roles[role].arguments["block_size"] for role in ("decode", "prefill"))
        mine, other = (value.whole if value.exists else _DEFAULT_BLOCK for value in (ours, theirs))
        if mine and other and mine != other:
            told = [
                f"{role} blocks hold {size} tokens{'' if value.exists else ', by default'}"
                for role, size, value in (("decode's", mine, ours), ("prefill's", other, theirs))
            ]
            yield self.found(ours if ours.exists else theirs, "; ".join(told))


class UnlikeShards(PairRule):
    """Each decode worker reads whole shards of prefill's heads, or splits one evenly: the larger tensor parallel
    size must be a multiple of the smaller."""

    number = "KV034"
    level = Level.ERROR
    mend = "Use sizes of which one divides the other"
    source = _CHECKS

    def check(self, part: Application) -> Iterator[Finding]:
        value = part.roles["decode"].arguments["tensor_parallel_size"]
        ours, theirs = (part.roles[role].size("tensor_parallel_size") for role in ("decode", "prefill"))
        if ours > 0 and theirs > 0 and max(ours, theirs) % min(ours, theirs):
            yield self.found(value, f"decode shards the model {ours} ways, prefill {theirs} ways")


class UnlikeLengths(PairRule):
    """A prompt goes through prefill first: what one role takes and the other refuses fails halfway."""

    number = "KV035"
    level = Level.WARNING
    mend = "Give both roles the same max_model_len"
    source = "Ray 2.58, ray/llm, prefill_decode/pd_server.py"

    def check(self, part: Application) -> Iterator[Finding]:
        ours, theirs = (part.roles[role].arguments["max_model_len"] for role in ("decode", "prefill"))
        if ours.whole is not None and theirs.whole is not None and ours.whole != theirs.whole:
            yield self.found(ours, f"decode takes {ours.whole} tokens, prefill {theirs.whole}")


class HybridStateLayout(EngineRule):
    """A hybrid model's convolution state can be moved in the DS layout only: vLLM asserts it at start."""

    number = "KV036"
    level = Level.ERROR
    mend = 'Add runtime_env: {env_vars: {VLLM_SSM_CONV_STATE_LAYOUT: "DS"}} to the engine'
    source = "vLLM 0.26, nixl/base_worker.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        name = "VLLM_SSM_CONV_STATE_LAYOUT"
        if not part.role or not is_hybrid(part):
            return
        value = part.variable(name)
        if value.exists and value.text != "DS":
            yield self.found(value, f"{name} is {value.shown}")
            return
        cluster = part.app.serve.cluster
        if (
            cluster
            and not value.exists
            and len(cluster.worker_environment.get(name, [])) < len(cluster.workers)
        ):
            yield self.found(part.model_source, f"the hybrid model {part.model_source.shown} lacks {name}")


class HybridManagerOff(EngineRule):
    """Without the hybrid cache manager a hybrid model's state is not part of the cache that moves."""

    number = "KV037"
    level = Level.ERROR
    mend = "Remove disable_hybrid_kv_cache_manager"
    source = "vLLM 0.26, nixl/base_worker.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["disable_hybrid_kv_cache_manager"]
        if part.role and is_hybrid(part) and value.is_true:
            yield self.found(value, "the hybrid KV cache manager is off for a hybrid model")


class HybridPrefixCaching(EngineRule):
    """A hybrid model's prefill leaves a prompt's last token to decode. When its own cache holds all the others, as for
    a prompt asked again, nothing is left to compute, and its engine ends with an assertion."""

    number = "KV038"
    level = Level.ERROR
    mend = "Set enable_prefix_caching: false for both roles, or leave it out: hybrid models have it off"
    source = "vllm #53514, and vLLM 0.26 by reading: nixl/pull_scheduler.py, v1/core/sched/scheduler.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["enable_prefix_caching"]
        if part.role and is_hybrid(part) and value.is_true:
            yield self.found(value, "prefix caching is on for a hybrid model in prefill/decode")


class HybridSpeculation(EngineRule):
    """Speculative decoding pads the prompt token that decode computes after a hand-over, and Mamba layers then keep a
    state that includes the padding: wrong answers under load, mended after vLLM 0.26. Gated delta nets take another
    way, which nobody here has tried."""

    number = "KV039"
    level = Level.WARNING
    mend = "Remove speculative_config"
    source = "vllm #55178, and vLLM 0.26 by reading: v1/attention/backends/mamba_attn.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["speculative_config"]
        if part.role and is_hybrid(part) and value.exists:
            yield self.found(value, "speculative decoding is on for a hybrid model in prefill/decode")


class HybridRecompute(EngineRule):
    """A failed read of a hybrid model's state is not turned into a recompute: decode goes on from wrong state."""

    number = "KV040"
    level = Level.ERROR
    mend = "Remove it: the default fails the request"
    source = "vLLM 0.26, nixl/pull_worker.py, by reading"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.transfer["kv_load_failure_policy"]
        if part.role and is_hybrid(part) and value.text == "recompute":
            yield self.found(value, "a hybrid model's state is not recomputed after a failed transfer")


class HybridOnCpu(EngineRule):
    """vLLM's CPU backend has no hand-over for hybrid models."""

    number = "KV041"
    level = Level.ERROR
    mend = "Serve a dense model on CPU, such as a small Qwen3"
    source = "https://github.com/vllm-project/vllm/issues/58034"

    def check(self, part: Engine) -> Iterator[Finding]:
        if part.role and part.on_cpu and is_hybrid(part):
            yield self.found(part.model_source, f"the hybrid model {part.model_source.shown} runs on CPU")


RULES: tuple[Rule[Any], ...] = (
    UnlikeModelIds(),
    UnlikeModels(),
    UnlikeCaches(),
    UnlikeBlocks(),
    UnlikeShards(),
    UnlikeLengths(),
    HybridStateLayout(),
    HybridManagerOff(),
    HybridPrefixCaching(),
    HybridSpeculation(),
    HybridRecompute(),
    HybridOnCpu(),
)
