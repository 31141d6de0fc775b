"""Answers questions about prefill/decode on this machine's GPUs, each a step with a time limit and a result file.

    python -m benchmarks.gpu.run --out OUT [--steps machine transport parity+hybrid blocks] [--seconds 560]

Steps run in the order given, those joined with + at once. A step that fails, or takes too long, leaves what it had
noted and its error, and the next one goes on. OUT/*.json are the results, OUT/logs.tar.xz the engines' logs, shortened.
`--cpu` tries every line of it with tiny models on a CPU; `hybrid` takes torchvision there too. `docs/benchmarks.md` is
made from results by report.py.
"""

# ruff: noqa: T201 - a script for people

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import signal
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gpu.engines import Place
from benchmarks.gpu.model import Shape
from benchmarks.gpu.steps import REPOSITORY, STEPS, Notes, Plan, variables_of
from kvrelay.errors import UserError
from kvrelay.local.serving.containment import SESSION_VARIABLE, end_processes

LIMITS = {
    "machine": 170,
    "transport": 130,
    "parity": 330,
    "blocks": 1500,
    "hybrid": 330,
    "misconfigured": 260,
    "serve": 900,
    "direct": 400,
    "starts": 900,
    "compare": 2400,
}
"""Seconds that a step may take, unless less is left of the run."""
SLOW_GB_PER_S = 3.0
_LOG_BYTES = 150_000


def run_all(steps: Sequence[str], arguments: Sequence[str], out: Path, seconds: float) -> bool:
    """Runs steps as processes of their own. Returns whether all ended well."""
    deadline, well = time.monotonic() + seconds, True
    for group in steps:
        names = group.split("+")
        left = deadline - time.monotonic()
        if left < 20:
            print(f"{group}: no time left", flush=True)
            well = False
            continue
        # A trial on a CPU takes what it takes.
        limits = {name: left - 10 if "--cpu" in arguments else min(left - 10, LIMITS[name]) for name in names}
        began = time.monotonic()
        started = {name: _start(name, arguments) for name in names}
        for name, (process, session) in started.items():
            ended = _await(name, process, session, min(deadline - 5, began + limits[name] + 5))
            if name == "machine" and not ended:
                print(
                    "machine: without what a run imports nothing else can go well; see machine.json",
                    flush=True,
                )
                return False
            well &= ended
    return well


def _start(name: str, arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], str]:
    session = secrets.token_hex(8)
    command = [sys.executable, "-m", "benchmarks.gpu.run", "--only", name, *arguments]
    environment = os.environ | {SESSION_VARIABLE: session, "PYTHONUNBUFFERED": "1"}
    print(f"{name}: begins", flush=True)
    return subprocess.Popen(command, env=environment, cwd=REPOSITORY, start_new_session=True), session


def _await(name: str, process: subprocess.Popen[bytes], session: str, deadline: float) -> bool:
    try:
        process.wait(max(deadline - time.monotonic(), 1))
    except subprocess.TimeoutExpired:
        # First politely, so that it notes why; what it started carries the session's mark.
        process.terminate()
        try:
            process.wait(8)
        except subprocess.TimeoutExpired:
            process.kill()
    ended = end_processes(session, grace=3)
    how = "done" if process.returncode == 0 else f"ended with {process.returncode}"
    print(f"{name}: {how}, {ended} left over", flush=True)
    return process.returncode == 0


def run_one(name: str, plan: Plan) -> bool:
    """One step in this process. Its error, if any, is in its result file."""
    plan.out.mkdir(parents=True, exist_ok=True)
    notes = Notes(plan.out / f"{name}.json")
    notes.note("begun", datetime.now(UTC).isoformat(timespec="seconds"))
    notes.note(
        "conditions",
        {
            "model": "tiny" if plan.small else plan.model,
            "device": plan.place.device,
            "gpus": plan.gpus,
            "ucx": dict(plan.ucx),
        },
    )
    try:
        STEPS[name](plan, notes)
    except BaseException as error:
        notes.note("error", "".join(traceback.format_exception(error))[-4000:])
        return False
    return True


def fastest(transport: Path) -> tuple[str, float | None]:
    """UCX's settings that rightly moved most GB/s in many pieces, and how many: its own choice, None if unknown."""
    found = json.loads(transport.read_text()) if transport.is_file() else {}
    speeds = [
        (each["gb_per_s"], name.removeprefix("UCX: ").replace("its own choice", ""))
        for name, value in found.items()
        if name.startswith("UCX: ")
        for each in value.get("measured", [])[-1:]
        if each["right"]
    ]
    # UCX's own choice comes first, and stays unless another is clearly faster.
    speed, road = max(speeds, key=lambda pair: pair[0] * (1.1 if pair[1] == "" else 1), default=(None, ""))
    return road, speed


class OutOfTime(BaseException):
    """A step's time is up: no error of anything inside it, so that nothing there takes it for its own."""


def _out_of_time(*_: object) -> None:
    raise OutOfTime("the step's time is up")


def keep_logs(work: Path, out: Path) -> None:
    """The beginning and the end of every log, in one archive."""
    with tarfile.open(out / "logs.tar.xz", "w:xz") as tar:
        for log in sorted((work / "logs").glob("*")):
            content = log.read_bytes()
            if len(content) > 2 * _LOG_BYTES:
                content = content[:_LOG_BYTES] + b"\n[...]\n" + content[-_LOG_BYTES:]
            short = log.with_suffix(".short")
            short.write_bytes(content)
            tar.add(short, log.name)
            short.unlink()


def collect(out: Path) -> None:
    """All results and raw measurements in one archive too, for those who may take few files away."""
    with tarfile.open(out / "results.tar.xz", "w:xz") as tar:
        for file in sorted((*out.glob("*.json"), *out.glob("*.jsonl"))):
            tar.add(file, file.name)


def _positive(text: str) -> float:
    """A finite number over 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number over 0")
    return number


def _rates(text: str) -> tuple[float, ...]:
    return tuple(_positive(rate) for rate in text.split(","))


def _sizes(text: str) -> tuple[int, ...]:
    # vLLM's attention takes no others.
    if not all(size.isdecimal() and int(size) > 0 and int(size) % 16 == 0 for size in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: wanted multiples of 16, like 16,64")
    return tuple(map(int, text.split(",")))


def _gpus(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs: 1 or more")
    return int(text)


def _model(name: str) -> str:
    try:
        Shape.of(name)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return name


def _ucx(text: str) -> str:
    if text != "auto":
        try:
            variables_of(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--steps", nargs="+", default=["machine", "transport", "compare"], help="default: %(default)s"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--work", type=Path, default=Path("/tmp/kvrelay-gpu"), help="models and logs (%(default)s)"
    )
    parser.add_argument("--cpu", action="store_true", help="try it all with a tiny model")
    parser.add_argument(
        "--model", type=_model, default="Qwen/Qwen3-8B", help="whose shape the random model has (%(default)s)"
    )
    parser.add_argument("--gpus", type=_gpus, default=1, help="with 2, prefill and decode have one each")
    parser.add_argument(
        "--seconds", type=_positive, default=3600, help="for all steps (default: %(default)s)"
    )
    parser.add_argument(
        "--rates", type=_rates, default="4.5,11,21.5", help="of `compare`, requests a second (%(default)s)"
    )
    parser.add_argument(
        "--load-seconds", type=_positive, default=60, help="of `compare`, each rate (%(default)s)"
    )
    parser.add_argument(
        "--load-rate", type=_positive, default=6, help="of `blocks`, requests a second (%(default)s)"
    )
    parser.add_argument(
        "--pool-seconds",
        type=_positive,
        default=20,
        help="of `blocks`, load on each block size (%(default)s)",
    )
    parser.add_argument(
        "--block-sizes",
        type=_sizes,
        metavar="TOKENS",
        help="of `blocks` (16,64,128; with --cpu, which takes minutes for each, 64)",
    )
    parser.add_argument(
        "--ucx",
        type=_ucx,
        default="auto",
        metavar="SETTINGS",
        help="UCX_NAME=VALUE ... for the engines; auto, the default: the best that `transport` found",
    )
    parser.add_argument("--only", choices=sorted(STEPS), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = {name for group in asked.steps for name in group.split("+")} - set(STEPS)
    if unknown:
        parser.error(f"--steps: {', '.join(sorted(unknown))} unknown; there are {', '.join(STEPS)}")
    sizes = asked.block_sizes or ((64,) if asked.cpu else (16, 64, 128))
    out, work = asked.out.resolve(), asked.work.resolve()
    if asked.only:
        place = Place("cpu" if asked.cpu else "cuda", work)
        road, rate = asked.ucx, asked.load_rate
        if road == "auto":
            road, speed = fastest(out / "transport.json")
            # What is slower than the load would only queue.
            if speed is not None and speed <= SLOW_GB_PER_S:
                rate = min(rate, 0.5)
        load = (asked.rates, asked.load_seconds, variables_of(road), rate)
        plan = Plan(place, out, asked.model, asked.gpus, *load, asked.pool_seconds, sizes)
        signal.signal(signal.SIGTERM, _out_of_time)
        sys.exit(0 if run_one(asked.only, plan) else 1)
    out.mkdir(parents=True, exist_ok=True)
    (work / "logs").mkdir(parents=True, exist_ok=True)
    handed = ["--out", str(out), "--work", str(work), "--model", asked.model, "--gpus", str(asked.gpus)]
    handed += [
        "--rates",
        ",".join(map(str, asked.rates)),
        "--load-seconds",
        str(asked.load_seconds),
        f"--ucx={asked.ucx}",
    ]
    handed += ["--load-rate", str(asked.load_rate), "--pool-seconds", str(asked.pool_seconds)]
    handed += ["--block-sizes", ",".join(map(str, sizes))]
    well = run_all(asked.steps, handed + ["--cpu"] * asked.cpu, out, asked.seconds)
    keep_logs(work, out)
    collect(out)
    for file in sorted(out.glob("*.json")):
        found = json.loads(file.read_text())
        if "error" in found:
            print(f"{file.name}: {found['error'].strip().splitlines()[-1]}", flush=True)
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
