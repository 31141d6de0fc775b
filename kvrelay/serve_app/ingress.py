"""The ingress class that our targets serve with, and where pods find its module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kvrelay.serve_app.app import ServeApp
from kvrelay.serve_app.rendering import Edit, Kind

INGRESS_MODULE = Path(__file__).parents[1] / "ingress" / "openai_error_ingress.py"
INGRESS_CLASS = f"{INGRESS_MODULE.stem}:OpenAIErrorIngress"
INGRESS_MOUNT = "/opt/kvrelay-ingress"
"""Where the module's ConfigMap is mounted in Ray's pods."""
INGRESS_ARGUMENTS = ("recovery_seconds", "first_token_seconds", "next_token_seconds", "answer_seconds")
"""What `ingress_extra_kwargs` may hold for that class, each in seconds."""


def clean_errors(app: ServeApp, folder: str) -> Iterator[Edit]:
    """Errors in OpenAI's form, and waits for a dead engine, by the module in `folder`; a file's own class stands."""
    if app.ingress_class not in (None, INGRESS_CLASS):
        return
    yield Edit(
        (*app.application_path, "args", "ingress_cls_config", "ingress_cls"),
        INGRESS_CLASS,
        "errors in OpenAI's form, and a request waits while a dead engine comes back",
        Kind.DEFAULT,
    )
    # Ray puts the container's own value, if any, in place of the braces.
    path = app.application.runtime_env.env_vars.get("PYTHONPATH", "${PYTHONPATH}")
    if folder not in path.split(":"):
        path = f"{folder}:{path}"
    yield Edit(
        (*app.application_path, "runtime_env", "env_vars", "PYTHONPATH"), path, "where that class's module is"
    )
