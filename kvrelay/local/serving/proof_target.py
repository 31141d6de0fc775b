"""The app served on this machine, as `kvrelay verify --target local` proves it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvrelay.errors import UserError
from kvrelay.local.serving.command import STATE
from kvrelay.local.serving.environment import require_environment
from kvrelay.local.serving.reference import reference_answers
from kvrelay.local.serving.session import SessionFolder
from kvrelay.ops.answers import Answer
from kvrelay.ops.proof import KvGeometry
from kvrelay.ops.proof_prompts import ProofPrompt
from kvrelay.ops.verify import ProofTarget
from kvrelay.serve_app import ServeApp, load_serve_app

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


def local_target() -> ProofTarget:
    """The running session. Raises UserError when there is none."""
    folder = SessionFolder(STATE / "serving")
    session = folder.session()
    if session is None or not session.alive:
        raise UserError("nothing is served on this machine; start with: kvrelay local serve")
    app = load_serve_app(folder.config)
    arguments = app.engines[0].arguments
    model = Path(app.model_source)
    interpreter = require_environment().interpreter
    block_size, longest = int(arguments["block_size"]), int(arguments["max_model_len"])

    def reference(prompts: Sequence[ProofPrompt], say: Callable[[str], None]) -> list[Answer]:
        return reference_answers(interpreter, STATE / "reference", model, prompts, block_size, longest, say)

    return ProofTarget(session.endpoint, session.model_id, geometry_of(app), longest, reference)


def geometry_of(app: ServeApp) -> KvGeometry:
    """Bytes of KV a token and tokens a block, from the app's own model folder and arguments."""
    arguments = app.engines[0].arguments
    model: dict[str, Any] = json.loads((Path(app.model_source) / "config.json").read_text())
    value = _BYTES[arguments.get("dtype", model["torch_dtype"])]
    per_token = 2 * model["num_hidden_layers"] * model["num_key_value_heads"] * model["head_dim"] * value
    return KvGeometry(per_token, int(arguments["block_size"]))
