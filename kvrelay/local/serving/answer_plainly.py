"""Answers prompts with one ordinary vLLM engine, no hand-over; run by the serving environment's interpreter.

Reads {"model", "block_size", "max_model_len", "prompts": [{"tokens", "max_tokens"}]} as JSON from stdin, writes
[{"tokens", "margins"}] to the file named on the command line.
"""

# mypy: disable-error-code="import-not-found,import-untyped,no-any-unimported"

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from vllm import LLM, SamplingParams


def main() -> None:
    asked = json.load(sys.stdin)
    engine = LLM(
        model=asked["model"],
        dtype="float32",
        enforce_eager=True,
        block_size=asked["block_size"],
        max_model_len=asked["max_model_len"],
        enable_prefix_caching=False,
        disable_log_stats=True,
    )
    prompts = [{"prompt_token_ids": prompt["tokens"]} for prompt in asked["prompts"]]
    parameters = [
        SamplingParams(temperature=0, max_tokens=prompt["max_tokens"], ignore_eos=True, logprobs=2)
        for prompt in asked["prompts"]
    ]
    answers = [answer(output.outputs[0]) for output in engine.generate(prompts, parameters)]
    Path(sys.argv[1]).write_text(json.dumps(answers))


def answer(output: Any) -> dict[str, Any]:
    tokens, margins = [], []
    for token_id, logprobs in zip(output.token_ids, output.logprobs, strict=True):
        chosen = logprobs[token_id]
        others = sorted(
            (entry.logprob for other, entry in logprobs.items() if other != token_id), reverse=True
        )
        tokens.append(chosen.decoded_token)
        margins.append(chosen.logprob - others[0] if others else float("inf"))
    return {"tokens": tokens, "margins": margins}


if __name__ == "__main__":
    main()
