"""What a family of models needs in an engine's environment, for prefill and decode apart."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.data.models import model
from kvrelay.data.unknown import UnknownNameError


@dataclass(frozen=True)
class FamilyNeed:
    """An environment variable with its value and reason."""

    variable: str
    value: str
    reason: str


_HYBRID = FamilyNeed(
    "VLLM_SSM_CONV_STATE_LAYOUT",
    "DS",
    "hybrid model: NIXL moves its convolution state only in this layout; vLLM refuses to start without",
)


def family_needs(model_source: str) -> tuple[FamilyNeed, ...]:
    """What the model of that Hugging Face id needs; nothing for one that is not described and not named so."""
    return (_HYBRID,) if _is_hybrid(model_source) else ()


def _is_hybrid(model_source: str) -> bool:
    """Whether some layers keep a state instead of a cache (gated delta net, Mamba)."""
    try:
        config = model(model_source).config
    except UnknownNameError:
        return any(name in model_source.lower() for name in ("qwen3.5", "qwen3_5", "qwen3-next"))
    text = config.get("text_config", config)
    return "full_attention_interval" in text
