"""The serve configs of the project, each with a deployment that carries it, and small ones made on the spot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kvrelay.serve_app import ServeApp, load_serve_app, parse_serve_app
from kvrelay.settings import Deployment
from kvrelay.yaml_source import parse_documents

PROJECT = Path(__file__).resolve().parents[2]
SERVE_CONFIGS = PROJECT / "serve_configs"


def _nodes(instance_type: str, count: int) -> Deployment:
    return Deployment.model_validate(
        {"gpu_nodes": {"groups": [{"instance_type": instance_type, "count": count}]}}
    )


DEPLOYMENTS = {
    "llama-3.3-70b": _nodes("p5.48xlarge", 2),
    "qwen3-8b": _nodes("g6.8xlarge", 2),
    "qwen3-8b-2p1d": _nodes("g6.8xlarge", 3),
    "qwen3-8b-autoscaled": _nodes("g6.8xlarge", 5),
    "qwen3.5-9b": Deployment(),
    "qwen3.5-9b-plain": Deployment(),
}
"""By serve config: nodes that carry it."""


def example(name: str) -> ServeApp:
    """One of the project's serve configs."""
    return load_serve_app(SERVE_CONFIGS / f"{name}.yaml")


def engine(**more: Any) -> dict[str, Any]:
    """The smallest engine config, with more or other keys."""
    transfer = {"kv_connector": "NixlConnector", "kv_role": "kv_producer"}
    return {
        "model_loading_config": {"model_id": "m", "model_source": "Qwen/Qwen3-8B"},
        "engine_kwargs": {"kv_transfer_config": transfer},
        **more,
    }


def prefill_decode(prefill: Any = None, decode: Any = None, **application: Any) -> dict[str, Any]:
    """The smallest prefill/decode config."""
    args = {"prefill_config": prefill or engine(), "decode_config": decode or engine()}
    return {
        "applications": [
            {"name": "llm", "import_path": "ray.serve.llm:build_pd_openai_app", "args": args, **application}
        ]
    }


def parsed(config: Any) -> ServeApp:
    """A config as it would be read from a file named app.yaml."""
    (document,) = parse_documents(yaml.safe_dump(config), "app.yaml")
    return parse_serve_app(document)
