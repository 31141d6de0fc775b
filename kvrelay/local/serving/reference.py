"""Reference answers: what one ordinary engine says to the same prompts, computed once and kept."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from kvrelay.errors import UserError
from kvrelay.local.serving.containment import containment
from kvrelay.ops.answers import Answer
from kvrelay.ops.proof_prompts import ProofPrompt

_SCRIPT = Path(__file__).with_name("answer_plainly.py")
_VARIABLES = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # The engine in this very process: no core process to shake hands with, and none to outlive it.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}
_SECONDS = 900.0


def reference_answers(
    interpreter: Path,
    cache: Path,
    model: Path,
    prompts: Sequence[ProofPrompt],
    block_size: int,
    max_model_len: int,
    say: Callable[[str], None] = lambda _: None,
) -> list[Answer]:
    """One ordinary engine's answer to each prompt, from `cache` when the same was asked before.

    Raises UserError, naming the engine's log, when there is no answer within 15 minutes.
    """
    asked = {
        "model": str(model),
        "block_size": block_size,
        "max_model_len": max_model_len,
        "prompts": [asdict(prompt) for prompt in prompts],
    }
    # The model's folder carries its content's hash in its name.
    content = json.dumps(asked | {"model": model.name, "script": _SCRIPT.read_text()})
    file = cache / f"{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
    if not file.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        say("starting one ordinary engine for the reference answers: a minute or two, once for these prompts")
        answers, log = file.with_suffix(".new"), file.with_suffix(".log")
        with tempfile.TemporaryDirectory(prefix="kvrelay-") as temporary:
            _compute(interpreter, json.dumps(asked), answers, log, Path(temporary))
        answers.replace(file)
    return [Answer(tuple(found["tokens"]), tuple(found["margins"])) for found in json.loads(file.read_text())]


def _compute(interpreter: Path, asked: str, answers: Path, log_file: Path, temporary: Path) -> None:
    command = [str(interpreter), str(_SCRIPT), str(answers.resolve())]
    held = containment()
    if held.isolated:
        # The engine talks to itself over TCP: on a loopback of its own. The shell stays, since a namespace's first
        # process must collect orphans, and Python does not.
        inside = 'mount -t tmpfs none /dev/shm && ip link set lo up && "$@"; exit $?'
        command = [*held.command, "sh", "-c", inside, "sh", *command]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "VLLM_"))}
    with log_file.open("w+") as log:
        process = subprocess.Popen(
            command,
            env=inherited | _VARIABLES | {"TMPDIR": str(temporary)},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            process.communicate(asked, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise UserError(
                f"the reference engine gave no answer in {_SECONDS:.0f} s; see {log_file}"
            ) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode != 0:
            log.seek(0)
            lines = [line.strip() for line in log.read().splitlines() if "Error" in line]
            said = lines[-1] if lines else f"exit status {process.returncode}"
            raise UserError(f"the reference engine failed: {said}; see {log_file}")
