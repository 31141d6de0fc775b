"""The same model on ordinary replicas: what prefill and decode apart is measured against."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import yaml

from kvrelay.serve_app.app import ServeApp
from kvrelay.serve_app.config import PLAIN_BUILDER
from kvrelay.serve_app.loading import parse_serve_app
from kvrelay.serve_app.model_families import family_needs
from kvrelay.settings import Role
from kvrelay.yaml_source import parse_documents

# What only a hand-over needs, and what keeps a pair's engines from meeting each other's ports.
_PAIR_VARIABLES = ("VLLM_DP_MASTER_PORT", "VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT")
_PAIR_SETTINGS = ("NIXL_SIDE_CHANNEL_PORT_BASE", "_prewarm_prefill_decode", "pd_tokenize_once")


def ordinary_replicas(
    app: ServeApp, replicas: int, engine_kwargs: Mapping[str, Any] | None = None
) -> ServeApp:
    """An app of `replicas` ordinary replicas with a prefill/decode app's decode engine, without the hand-over.

    Everything else stays: model, limits, ingress, name. `engine_kwargs` are set over the engine's own, for a baseline
    tuned for itself. Raises InvalidFileError when `app` has ordinary replicas already.
    """
    decode = app.engine(Role.DECODE)
    config = dict(decode.document.at(decode.path))
    arguments = {key: value for key, value in decode.arguments.items() if key != "kv_transfer_config"}
    config["engine_kwargs"] = arguments | dict(engine_kwargs or {})
    variables = {*_PAIR_VARIABLES, *(need.variable for need in family_needs(decode.model_source))}
    environment = dict(config.get("runtime_env") or {})
    environment["env_vars"] = _without(environment.get("env_vars"), variables)
    config["runtime_env"] = environment
    config["experimental_configs"] = _without(config.get("experimental_configs"), _PAIR_SETTINGS)
    options = _without(config.get("deployment_config"), ("autoscaling_config",))
    config["deployment_config"] = options | {"num_replicas": replicas}
    args = _without(decode.document.at((*app.application_path, "args")), ("prefill_config", "decode_config"))
    application = decode.document.at(app.application_path) | {
        "import_path": PLAIN_BUILDER,
        "args": {"llm_configs": [config], **args},
    }
    applications = list(app.config["applications"])
    applications[app.application_index] = application
    text = yaml.safe_dump({**app.config, "applications": applications}, sort_keys=False)
    (document,) = parse_documents(text, f"{app.file} on ordinary replicas")
    return parse_serve_app(document)


def _without(mapping: Any, keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in (mapping or {}).items() if key not in keys}
