"""What a model's name tells about how it must be served."""

from __future__ import annotations

import re

from kvrelay.rules.serve import Engine

# Attention beside state-space or linear layers: the cache is more than keys and values.
_HYBRID = re.compile(
    r"qwen3[._-]?5|qwen3[._-]?next|kimi[._-]?linear|jamba|zamba|bamba|falcon[._-]?h1|nemotron[._-]?h|"
    r"granite[._-]?4.*[._-]h[._-]|minimax[._-]?(text|m1)|lfm2|plamo2",
    re.IGNORECASE,
)
_GATED = re.compile(r"^(meta-llama/|google/gemma-([123]|7b))", re.IGNORECASE)


def is_hybrid(engine: Engine) -> bool:
    """Whether the model has recurrent layers beside attention, by its name."""
    return bool(_HYBRID.search(engine.model_source.text or ""))


def is_gated(engine: Engine) -> bool:
    """Whether the model's owner wants its licence accepted before a download, by its name."""
    return bool(_GATED.match(engine.model_source.text or ""))
