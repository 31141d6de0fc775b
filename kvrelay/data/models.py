"""Language models: the fields of their public config.json, and what their makers publish about size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvrelay.data.reading import load, names
from kvrelay.data.unknown import unknown_name

# The first letters of a model id after its owner, to the file that holds it: a look-up reads one file.
_FILES = {
    "Qwen/Qwen3.5": "qwen3.5",
    "Qwen/Qwen3-": "qwen3",
    "meta-llama/": "llama3",
    "mistralai/": "mistral",
    "google/gemma-3": "gemma3",
    "openai/gpt-oss": "gpt-oss",
    "deepseek-ai/": "deepseek-v3",
    "microsoft/": "phi",
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model by its Hugging Face id. Published figures are None where the maker gives none."""

    id: str
    config: Mapping[str, Any]
    """The fields of config.json that bear on memory and speed, under their own names."""
    parameters: int | None
    kv_bytes_per_token: int | None
    """At two bytes a number, published or measured."""
    checkpoint_gib: float | None
    source: str
    date: str


def model(id: str) -> Model:
    """The model of that id. Raises UnknownNameError with the closest ids."""
    for prefix, file in _FILES.items():
        if id.startswith(prefix):
            models = _models(file)
            if id in models:
                return models[id]
    remedy = "config.json: pass its path (kvrelay plan --model-config)"
    raise unknown_name("model", id, (each.id for each in models_known()), remedy)


def models_known() -> tuple[Model, ...]:
    """Every model, by family. Reads all families: prefer `model` for one."""
    return tuple(each for file in names("models") for each in _models(file).values())


@cache
def _models(file: str) -> Mapping[str, Model]:
    content = load(f"models/{file}.yaml")
    return {
        id: Model(
            id=id,
            config=entry["config"],
            parameters=entry.get("parameters"),
            kv_bytes_per_token=entry.get("kv_bytes_per_token"),
            checkpoint_gib=entry.get("checkpoint_gib"),
            source=content["source"],
            date=content["date"],
        )
        for id, entry in content["models"].items()
    }
