"""KV: the hand-over of the KV cache from prefill to decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvrelay.rules.kinds import EngineRule, PairRule, TransferRule
from kvrelay.rules.known_keys import known, meant
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Application, Engine
from kvrelay.rules.value import Value

ROLES = ("kv_producer", "kv_consumer", "kv_both")
NETWORK_BACKENDS = ("UCX", "LIBFABRIC", "UCCL")
_STORAGE_BACKENDS = ("GDS", "GDS_MT", "POSIX", "OBJ", "HF3FS", "AZURE_BLOB")
_VLLM = "vLLM 0.26, vllm/config/kv_transfer.py"
_NIXL = "vLLM 0.26, kv_connector/v1/nixl"
_RAY = "Ray 2.58, ray/llm, prefill_decode/builder.py"


def uses_nixl(engine: Engine) -> bool:
    """Whether NIXL moves the engine's cache."""
    return (engine.transfer["kv_connector"].text or "").startswith("Nixl")


def backends(engine: Engine) -> list[str]:
    """The NIXL backends, UCX when none are named."""
    named = engine.transfer_options["backends"]
    return [item.text for item in named.items() if item.text] if named.exists else ["UCX"]


class FixedEngineId(TransferRule):
    """A fixed engine id outlives a restarted prefill replica: decode skips the handshake and reads memory that
    is no longer the cache. Ray appends host and port only, which a restart in place keeps."""

    number = "KV001"
    level = Level.ERROR
    mend = "Remove engine_id: Ray makes a fresh one at each start"
    source = "https://github.com/vllm-project/vllm/issues/49238"

    def check(self, part: Engine) -> Iterator[Finding]:
        engine_id = part.transfer["engine_id"]
        if engine_id.exists:
            yield self.found(engine_id, f"fixes the engine id to {engine_id.shown}, which outlives a restart")


class UcxOnEfa(TransferRule):
    """Left at its default, NIXL moves the cache by UCX, which knows no EFA and falls back to TCP without an error:
    some hundred MB/s, a time to first token of minutes."""

    number = "KV002"
    level = Level.ERROR
    mend = "Set kv_connector_extra_config: {backends: [LIBFABRIC]}"
    source = "https://github.com/vllm-project/vllm/issues/41814"

    def check(self, part: Engine) -> Iterator[Finding]:
        if part.on_efa and uses_nixl(part) and "LIBFABRIC" not in backends(part):
            named = part.transfer_options["backends"]
            what = f"names the backends {backends(part)}" if named.exists else "names no NIXL backend"
            yield self.found(
                named if named.exists else part.transfer, f"{what}, so UCX runs over TCP on nodes with EFA"
            )


class SharedSideChannelPort(PairRule):
    """Both engines bind their NIXL side channel at the port base plus the replica's rank: with one base, a prefill
    and a decode replica that share a pod collide. Ray's own bases are 20000 and 22000."""

    number = "KV003"
    level = Level.WARNING
    mend = "Leave it out in both roles, or give each its own, 2000 apart"
    source = _RAY

    def check(self, part: Application) -> Iterator[Finding]:
        bases = {
            role: engine.config.at("experimental_configs", "NIXL_SIDE_CHANNEL_PORT_BASE")
            for role, engine in part.roles.items()
        }
        prefill, decode = bases["prefill"], bases["decode"]
        if (prefill.whole if prefill.exists else 20000) == (decode.whole if decode.exists else 22000):
            value = decode if decode.exists else prefill
            yield self.found(value, f"gives prefill and decode the same port base {value.shown}")


class NoKvTransfer(EngineRule):
    """Both roles must say how the cache moves, or Ray refuses the application."""

    number = "KV004"
    level = Level.ERROR
    mend = "Add engine_kwargs.kv_transfer_config with kv_connector and kv_role"
    source = _RAY

    def check(self, part: Engine) -> Iterator[Finding]:
        if part.role and not part.transfer.is_mapping:
            yield self.found(part.transfer, f"the {part.role} engine has no kv_transfer_config")


class NoKvRole(TransferRule):
    """vLLM refuses a connector without a role."""

    number = "KV005"
    level = Level.ERROR
    mend = "Set kv_role: kv_producer for prefill, kv_consumer for decode"
    source = _VLLM

    def check(self, part: Engine) -> Iterator[Finding]:
        if part.transfer["kv_connector"].exists and not part.transfer["kv_role"].exists:
            yield self.found(part.transfer, "names a connector without a kv_role")


class UnknownKvRole(TransferRule):
    """vLLM knows three roles; Ray passes any other on, and the engine fails minutes later, at its start."""

    number = "KV006"
    level = Level.ERROR
    mend = "Use kv_producer for prefill, kv_consumer for decode"
    source = _VLLM

    def check(self, part: Engine) -> Iterator[Finding]:
        role = part.transfer["kv_role"]
        if role.exists and role.scalar not in ROLES:
            yield self.found(role, f"{role.shown} is no kv_role")


class DeprecatedKvBoth(TransferRule):
    """With NIXL each engine now says which side it is; `kv_both` is to be removed."""

    number = "KV007"
    level = Level.WARNING
    mend = "Use kv_producer for prefill, kv_consumer for decode"
    source = f"{_NIXL}/connector.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        role = part.transfer["kv_role"]
        if part.role and uses_nixl(part) and role.text == "kv_both":
            yield self.found(role, "kv_both is deprecated with NIXL")


class SwappedKvRoles(TransferRule):
    """Prefill makes the cache and decode takes it; Ray lets the reverse pass."""

    number = "KV008"
    level = Level.ERROR
    mend = "Use kv_producer for prefill, kv_consumer for decode"
    source = "vLLM's documentation, features/nixl_connector_usage"

    def check(self, part: Engine) -> Iterator[Finding]:
        role = part.transfer["kv_role"]
        wrong = {"prefill": "kv_consumer", "decode": "kv_producer"}.get(part.role or "")
        if wrong and role.text == wrong:
            yield self.found(role, f"the {part.role} engine is a {wrong}")


class UnknownTransferKey(TransferRule):
    """vLLM refuses unknown keys in `kv_transfer_config`, after the image was pulled and the pod started. A
    connector's own options belong one level deeper."""

    number = "KV009"
    level = Level.ERROR
    mend = "Correct it, or move a connector's option into kv_connector_extra_config"
    source = _VLLM

    def check(self, part: Engine) -> Iterator[Finding]:
        for key, value in part.transfer.entries():
            if key in known("nixl_options") and key not in known("kv_transfer"):
                yield self.found(
                    value,
                    f"{key} is an option of the connector, not of kv_transfer_config",
                    f"Move it into kv_connector_extra_config: {{{key}: ...}}",
                )
            elif name := meant(key, "kv_transfer"):
                yield self.found(value, f"{key} is no key of kv_transfer_config", f"Write {name}")


class IgnoredTransferOption(TransferRule):
    """What stands in `kv_connector_extra_config` reaches the connector only: settings of the transfer itself are
    ignored there in silence, as is a misspelled option."""

    number = "KV010"
    level = Level.ERROR
    mend = "Move it up into kv_transfer_config"
    source = _VLLM

    def check(self, part: Engine) -> Iterator[Finding]:
        for key, value in part.transfer_options.entries():
            if key in known("kv_transfer"):
                yield self.found(value, f"{key} is ignored inside kv_connector_extra_config")
            elif uses_nixl(part) and (name := meant(key, "nixl_options")):
                yield self.found(value, f"{key} is no option of the NIXL connector", f"Write {name}")


class UnlikeConnectors(PairRule):
    """Decode asks prefill in the connector's own protocol: two kinds do not understand each other."""

    number = "KV011"
    level = Level.ERROR
    mend = "Name the same kv_connector for both roles"
    source = "vLLM's documentation, features/disagg_prefill"

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = (part.roles[role].transfer["kv_connector"] for role in ("prefill", "decode"))
        if prefill.text and decode.text and prefill.text != decode.text:
            yield self.found(decode, f"decode uses {decode.shown}, prefill {prefill.shown}")


class UnlikeBackends(PairRule):
    """Two NIXL agents move data through a backend that both have; without one no cache moves."""

    number = "KV012"
    level = Level.ERROR
    mend = "Name the same backends for both roles"
    source = f"{_NIXL}/base_worker.py; NIXL's documentation on backends"

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = part.roles["prefill"], part.roles["decode"]
        if not (uses_nixl(prefill) and uses_nixl(decode)):
            return
        ours, theirs = backends(decode), backends(prefill)
        if ours and theirs and not set(ours) & set(theirs):
            value = decode.transfer_options["backends"]
            yield self.found(value, f"decode moves the cache by {ours}, prefill by {theirs}")


class UnusableBackend(TransferRule):
    """NIXL finds a backend by its plugin's file name, in capitals; storage backends move nothing between engines."""

    number = "KV013"
    level = Level.ERROR
    mend = "Name LIBFABRIC (EFA) or UCX, in capitals"
    source = "NIXL 1.3, docs/BackendGuide"

    def check(self, part: Engine) -> Iterator[Finding]:
        named = list(part.transfer_options["backends"].items())
        for value in named:
            if value.text and value.text not in NETWORK_BACKENDS and value.text.upper() in NETWORK_BACKENDS:
                yield self.found(value, f"{value.shown} is no backend's name", f"Write {value.text.upper()}")
        if named and all(value.text in _STORAGE_BACKENDS for value in named):
            yield self.found(named[0], f"{named[0].shown} stores a cache, it moves none between engines")


class BackendsNotAList(TransferRule):
    """The connector goes through `backends` one by one: of a string it takes the letters."""

    number = "KV014"
    level = Level.ERROR
    mend = "Write a list: backends: [LIBFABRIC]"
    source = f"{_NIXL}/base_worker.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        named = part.transfer_options["backends"]
        if uses_nixl(part) and named.written and (not named.is_list or not named.raw):
            yield self.found(named, f"backends is {named.shown}, not a list of names")


class UnknownFailurePolicy(TransferRule):
    """A transfer that fails either fails the request or is computed again; vLLM knows no third."""

    number = "KV015"
    level = Level.ERROR
    mend = "Use fail (the default) or recompute"
    source = _VLLM

    def check(self, part: Engine) -> Iterator[Finding]:
        policy = part.transfer["kv_load_failure_policy"]
        if policy.exists and policy.scalar not in {"fail", "recompute"}:
            yield self.found(policy, f"{policy.shown} is no kv_load_failure_policy")


class UnsupportedBufferDevice(TransferRule):
    """NIXL moves the cache from GPU memory or, staged, from host memory; other devices stop the engine."""

    number = "KV016"
    level = Level.ERROR
    mend = "Leave kv_buffer_device out: it follows the platform. On GPUs cuda and cpu are allowed"
    source = f"{_NIXL}/utils.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        device = part.transfer["kv_buffer_device"]
        allowed = {"cpu"} if part.on_cpu else {"cuda", "cpu", "xpu"}
        if uses_nixl(part) and device.exists and device.scalar not in allowed:
            yield self.found(device, f"the cache can't be moved from the device {device.shown}")


class HandshakeCheckOff(TransferRule):
    """The handshake compares model, dtype and cache layout of both engines. Without it a mismatch is not refused:
    decode answers from garbage."""

    number = "KV017"
    level = Level.WARNING
    mend = "Remove enforce_handshake_compat and let unlike engines be refused"
    source = f"{_NIXL}/base_worker.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        check = part.transfer_options["enforce_handshake_compat"]
        if check.raw is False:
            yield self.found(check, "the handshake's compatibility check is switched off")


class NoConnector(TransferRule):
    """Ray refuses KV transfer settings without a connector, vLLM a connector it does not know."""

    number = "KV018"
    level = Level.ERROR
    mend = "Set kv_connector: NixlConnector"
    source = "Ray 2.58, ray/llm, configs/llm_config.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        connector = part.transfer["kv_connector"]
        if not connector.exists:
            yield self.found(part.transfer, "names no kv_connector")
        elif connector.text and not part.transfer["kv_connector_module_path"].exists:
            name = connector.text
            if name != "NixlConnector" and name.lower().replace("_", "").startswith("nixlconnector"):
                yield self.found(connector, f"{connector.shown} is no connector of vLLM")


class ShortLease(TransferRule):
    """Prefill keeps a cache for the lease and decode renews it every sixth of it, in whole seconds: below six the
    renewal has no interval, and below a queueing time caches expire before decode fetches them."""

    number = "KV019"
    level = Level.WARNING
    mend = "Leave kv_lease_duration out: the default is 30 seconds"
    source = f"{_NIXL}/base_scheduler.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        lease = part.transfer_options["kv_lease_duration"]
        if lease.number is not None and lease.number < 6:
            yield self.found(lease, f"a lease of {lease.shown} s is shorter than its renewal needs")


class ExpandableSegments(EngineRule):
    """PyTorch's expandable segments are mapped piece by piece: NIXL can't register them with the network device,
    and the engine stops or transfers fail."""

    number = "KV020"
    level = Level.ERROR
    mend = "Remove expandable_segments from the allocator's settings of both engines"
    source = "NIXL and vLLM issues on registering memory; seen on real GPUs"

    def check(self, part: Engine) -> Iterator[Finding]:
        if not part.role:
            return
        for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            for value in (part.variable(name), *_of_workers(part, name)):
                if "expandable_segments:true" in (value.text or "").lower().replace(" ", ""):
                    yield self.found(value, f"{name} is {value.shown}, memory that NIXL can't register")


class LoopbackSideChannel(EngineRule):
    """Decode reaches prefill's side channel at this address from another node. Ray sets it to the node's own."""

    number = "KV021"
    level = Level.ERROR
    mend = "Remove VLLM_NIXL_SIDE_CHANNEL_HOST: Ray sets the node's address"
    source = "Ray 2.58, ray/llm, kv_transfer/nixl.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        name = "VLLM_NIXL_SIDE_CHANNEL_HOST"
        if part.app.serve.cluster is None:
            return
        for value in (part.variable(name), *_of_workers(part, name)):
            if value.text in {"127.0.0.1", "localhost", "0.0.0.0", "::1", "::"}:
                yield self.found(value, f"{name} is {value.shown}, which no other node reaches")


class FixedSideChannelPort(EngineRule):
    """Ray gives each replica its own port unless this variable is set: then all replicas of a pod bind one."""

    number = "KV022"
    level = Level.WARNING
    mend = "Remove it; experimental_configs.NIXL_SIDE_CHANNEL_PORT_BASE moves the whole range"
    source = "Ray 2.58, ray/llm, kv_transfer/nixl.py"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.variable("VLLM_NIXL_SIDE_CHANNEL_PORT")
        if part.role and value.exists:
            yield self.found(value, f"fixes the side channel of every replica to port {value.shown}")


class SharedMasterPort(PairRule):
    """Engines that start together on one node race for the port of their process group; one loses a minute."""

    number = "KV023"
    level = Level.WARNING
    mend = "Give prefill and decode a VLLM_DP_MASTER_PORT of their own"
    source = "seen on an H200: EADDRINUSE, a start of 212 s for 131 (docs/benchmarks.md, question 7)"

    def check(self, part: Application) -> Iterator[Finding]:
        prefill, decode = (part.roles[role].variable("VLLM_DP_MASTER_PORT") for role in ("prefill", "decode"))
        if prefill.exists and decode.exists and prefill.scalar_text == decode.scalar_text:
            yield self.found(decode, f"prefill and decode share the master port {decode.shown}")


def _of_workers(engine: Engine, name: str) -> list[Value]:
    cluster = engine.app.serve.cluster
    return cluster.worker_environment.get(name, []) if cluster else []


RULES: tuple[Rule[Any], ...] = (
    FixedEngineId(),
    UcxOnEfa(),
    SharedSideChannelPort(),
    NoKvTransfer(),
    NoKvRole(),
    UnknownKvRole(),
    DeprecatedKvBoth(),
    SwappedKvRoles(),
    UnknownTransferKey(),
    IgnoredTransferOption(),
    UnlikeConnectors(),
    UnlikeBackends(),
    UnusableBackend(),
    BackendsNotAList(),
    UnknownFailurePolicy(),
    UnsupportedBufferDevice(),
    HandshakeCheckOff(),
    NoConnector(),
    ShortLease(),
    ExpandableSegments(),
    LoopbackSideChannel(),
    FixedSideChannelPort(),
    SharedMasterPort(),
)
