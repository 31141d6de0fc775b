"""Writes docs/planner.md and its picture from data, measurements and the planner's own answers.

python -m kvrelay.planner.page docs
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from kvrelay.data.models import models_known
from kvrelay.data.performance import fabrics
from kvrelay.data.reading import load
from kvrelay.planner.asked import Asked, asked
from kvrelay.planner.cache import cache_shape
from kvrelay.planner.calibrated import H200, Row, dynamo_ttft, rows, typical_error
from kvrelay.planner.fit import GIB, MIB, fit
from kvrelay.planner.model_config import shape_of
from kvrelay.planner.parameters import count
from kvrelay.planner.picture import draw
from kvrelay.planner.plan import plan
from kvrelay.planner.weights import weight_bytes
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import Deployment


def reference(root: Path) -> Asked:
    """The reference deployment with its own serve config, found below the project's root."""
    deployment = Deployment()
    return asked(deployment, load_serve_app(root / deployment.serving.serve_config))


def page(root: Path) -> str:
    """The whole of docs/planner.md."""
    return "\n".join([*_opening(), *_reference(root), *_calibration(), *_models(), *_assumptions(), ""])


def picture(root: Path) -> str:
    """The picture that the page shows."""
    wanted = reference(root)
    compared = plan(wanted).comparison
    assert compared is not None
    return draw(wanted, compared)


def _opening() -> Iterator[str]:
    yield "# The planner: does it fit, does prefill/decode pay, what does it cost"
    yield ""
    yield "This page is written by `python -m kvrelay.planner.page docs`; a test fails when it is stale."
    yield ""
    yield "```"
    yield "kvrelay plan                                   # deployment.yaml and its serve config"
    yield "kvrelay plan --concurrency 8 --rate 2 --mix 90%:512/128,10%:12000/64"
    yield "kvrelay plan --model-config ./config.json      # a model that kvrelay does not know"
    yield "kvrelay plan --picture plan.svg --output json  # exit code 1: it does not fit"
    yield "```"
    yield ""
    yield "It runs on a laptop, asks AWS nothing, and its only inputs are dated data files in `kvrelay/data/`."


def _reference(root: Path) -> Iterator[str]:
    wanted = reference(root)
    engine, found = wanted.decode.engine, fit(wanted.decode.engine)
    made = plan(wanted)
    assert made.comparison is not None
    yield ""
    yield "## The reference deployment"
    yield ""
    yield f"{wanted.shape.name} on {engine.instance.name}, one {engine.gpu.kind} for each role, text only:"
    yield ""
    yield from _grid(
        ("GiB of one GPU", ""),
        [
            ("memory", f"{found.gpu / GIB:.2f}"),
            (f"budget (gpu_memory_utilization {engine.utilization:g})", f"{found.budget / GIB:.2f}"),
            ("weights", f"{found.weights / GIB:.2f}"),
            ("activations", f"{found.activations / GIB:.2f}"),
            ("CUDA graphs", f"{found.graphs / GIB:.2f}"),
            ("left for the KV cache", f"{found.cache / GIB:.2f}"),
        ],
    )
    yield ""
    verdict = made.comparison.verdict
    yield f"A sequence of {engine.max_model_len} tokens takes {found.sequence / MIB:.1f} MiB;"
    yield f"{found.sequences} fit at once."
    yield f"{verdict[0].upper()}{verdict[1:]}"
    goals = made.comparison.goals
    yield f"(prompts around {engine.max_model_len // 2} tokens, TTFT p90 within {goals.ttft_p90:g} s,"
    yield f"ITL p99 within {goals.itl_p99 * 1e3:g} ms)."
    yield f"Cost {made.cost.usd_per_hour:.2f} USD/h; first token about"
    yield f"{made.timelines['deploy'].seconds / 60:.0f} minutes after `cdk deploy`,"
    pull = made.asked.image_pull
    yield f"of which {pull.seconds / 60:.1f} fetch and unpack the container ({pull.sequential / 60:.1f} with"
    yield "`image_pull: sequential`)."
    yield ""
    yield "![TTFT, ITL, requests within the goals and their price over the ratio of prefill to decode](planner.svg)"
    yield ""
    yield "KV cache of one prompt on its way from prefill to decode, ms:"
    yield ""
    road = made.roads[-1]
    yield from _grid(
        (f"{road.tokens} tokens, {road.transfers[0].bytes / MIB:.1f} MiB", "ms", "GB/s", "source"),
        [
            (each.fabric.label, f"{each.seconds * 1e3:.0f}", f"{each.gb_per_s:.2f}", each.fabric.source)
            for each in road.transfers
        ],
    )


def _calibration() -> Iterator[str]:
    found, content = rows(), load(H200)
    yield ""
    yield "## Error against measurements"
    yield ""
    yield f"{content['title']}, {content['date']}. {content['conditions']}"
    yield ""
    alone = [row for row in found if row.what == "TTFT"]
    loaded = [row for row in found if row.what not in {"TTFT", "prefill", "descriptors"}]
    yield (
        f"Median error: {typical_error(alone):.0%} for a request alone, {typical_error(loaded):.0%} under load "
        f"({typical_error([row for row in loaded if row.what.endswith('p50')]):.0%} at p50, "
        f"{typical_error([row for row in loaded if row.what.endswith('p99')]):.0%} at p99). The constants of "
        "`kvrelay/data/calibration.yaml` were fitted to the requests alone and the parts; nothing was fitted to loads."
    )
    yield ""
    yield from _grid(
        ("case", "system", "figure", "measured", "planned", "error"),
        [
            (
                row.cell,
                row.system,
                row.what,
                _number(row, row.measured),
                _number(row, row.planned),
                f"{row.error:+.0%}",
            )
            for row in found
        ],
    )
    yield ""
    yield "Where the large errors come from:"
    yield ""
    yield "- TTFT p90 at 4 + 0.5: 11 % of the requests are long, so that p90 lies on the edge between chats and long"
    yield "  prompts; 16 long ones came in 32 s of measuring."
    yield "- Prefill/decode at 20 + 1.5: prefill is four fifths busy and its queue long. The planner gives the steady"
    yield "  state and serves prompts one by one; the run began empty and lasted 32 s, and vLLM packs short prompts."
    yield "- ITL p99: about one step in a hundred is stopped by a long prompt, so that p99 lies on an edge too."
    yield ""
    yield "Figures that others published:"
    yield ""
    figures = load("measurements/others.yaml")["figures"]
    yield from _grid(
        ("figure", "value", "planned", "source"),
        [
            (
                each["what"],
                f"{each['value']:g} {each['unit']}",
                f"{dynamo_ttft(each['fabric']):.1f} s" if "fabric" in each else "-",
                each["source"],
            )
            for each in figures
        ],
    )
    yield ""
    yield "The planner's TCP is the line's speed; what a fallback really does can be forty times worse."


def _models() -> Iterator[str]:
    yield ""
    yield "## Models"
    yield ""
    yield "Parameters are counted from the fields of each config.json, layer by layer. `published` is the"
    yield "maker's count. Cache and state are bytes at 16 bits a number."
    yield ""
    lines = []
    for each in models_known():
        shape = shape_of(each.config, each.id)
        parts, cache = count(shape), cache_shape(shape)
        # Makers count MTP heads or not; the nearer of the two is theirs.
        counted = parts.total
        if each.parameters:
            counted = min((parts.total, parts.text + parts.vision), key=lambda n: abs(n - each.parameters))  # type: ignore[operator]
        published = f"{each.parameters / 1e9:.3f}" if each.parameters else "-"
        weights = weight_bytes(shape, shape.weights, vision=True)
        lines.append(
            (
                each.id,
                f"{counted / 1e9:.3f}",
                published,
                f"{weights / GIB:.1f} ({shape.weights})",
                f"{cache.token:,}",
                f"{cache.state / MIB:.1f}" if cache.state else "-",
            )
        )
    yield from _grid(
        (
            "model",
            "10^9 parameters",
            "published",
            "weights, GiB",
            "KV bytes a token",
            "state, MiB a sequence",
        ),
        lines,
    )


def _assumptions() -> Iterator[str]:
    unmeasured = ", ".join(each.label for each in fabrics().values() if not each.measured)
    yield ""
    yield "## How it works, and what nobody has measured"
    yield ""
    yield "- Fit: weights from shapes; activations as one full step's states and logits (good to about half a GiB);"
    yield "  CUDA graphs 18 MiB a layer; the cache in vLLM's blocks, which a hybrid model makes as large as its state."
    yield "- Prefill: operations over dense tensor throughput times 0.62. Decode: bytes over memory bandwidth"
    yield "  times 0.75. Both shares were fitted on H200 only; on L4 and all other GPUs they are the same assumption."
    yield "- Queues: Poisson arrivals; Pollaczek and Khinchine's waiting time in front of prefill, Little's law"
    yield "  for decode. Plain replicas are tried with vLLM's own chunk and a quarter of it; the better is the rival."
    yield "  Where prefill and decode have different nodes, all plain replicas count as on decode's."
    yield "- Transfers stop decode while they are posted: one descriptor a block and layer once the pool has cycled."
    yield "  A larger `block_size` makes fewer; that is the first thing to try where ITL p99 is too high."
    yield f"- Not measured: {unmeasured}; tensor parallelism's loss; every duration marked"
    yield "  `assumed` in `kvrelay/data/durations.yaml`. Measure on your own nodes before you rely on any of them."


def _grid(head: Iterable[str], lines: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = list(head)
    yield f"| {' | '.join(titles)} |"
    yield f"| {' | '.join('---' for _ in titles)} |"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def _number(row: Row, value: float) -> str:
    return f"{value:.1f} {row.unit}".strip() if value < 100 else f"{value:.0f} {row.unit}".strip()


def main(folder: Path) -> None:
    """Writes the page and its picture into `folder`, which lies in the project's root."""
    root = folder.resolve().parent
    (folder / "planner.md").write_text(page(root))
    (folder / "planner.svg").write_text(picture(root))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
